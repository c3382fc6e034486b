/* What the relay does to the world: standard streams, the agent's socket, becoming the standalone program. No file is
 * made, no process started, no signal handler set. Errors are positive errno numbers. */
#ifndef RELAY_IO_H
#define RELAY_IO_H

#include <stddef.h>
#include <stdint.h>

#include "relay-core.h"

/* Monotonic milliseconds. */
int64_t relay_now_ms(void);

/* Reads stdin to its end; a closed stdin is an empty one. *bytes is what came, always; 0, E2BIG where it is longer than `room`, ETIMEDOUT
 * where it is not at its end and brought nothing for `idle_ms` or is not at its end after `total_ms`. */
int relay_read_stdin(uint8_t *into, size_t room, size_t *bytes, int idle_ms, int64_t total_ms);

/* Writes everything; waits where the descriptor does not block by itself. 0 or errno. */
int relay_write(int fd, const void *bytes, size_t length);

struct relay_request {
	const uint8_t *env;
	const uint8_t *input;
	uint32_t env_bytes;
	uint32_t input_bytes;
};

/* Moments (relay_now_ms): by `read_ms` the agent must have taken the call, or have read it, or be at work; else it hangs. By
 * `take_ms` it must have taken it, by `answer_ms` answered. */
struct relay_deadlines {
	int64_t read_ms;
	int64_t take_ms;
	int64_t answer_ms;
};

/* One call at the agent. `bytes` has RELAY_ANSWER_ROOM. RELAY_NOTHING and
 * RELAY_REFUSED: the agent has not acted and never will. RELAY_PENDING, RELAY_BROKEN: it may have, and no answer is to
 * be had. *error says why, where the kernel said. */
enum relay_state relay_call(const char *path, const struct relay_request *request, const struct relay_deadlines *deadlines,
			    uint8_t *bytes, struct relay_answer *answer, int *error);

/* Becomes the program `name` beside this one, with the same arguments and environment. `input` (or NULL: stdin was not
 * read) is its stdin. Returns errno only. */
int relay_exec_beside(const char *name, char **argv, char **env, const uint8_t *input, size_t bytes);

#endif
