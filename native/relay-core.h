/* The relay's decisions, without a system call: what is called for, how a request is packed, what an answer says.
 * The frames stand in src/cni/relay-frame.ts. */
#ifndef RELAY_CORE_H
#define RELAY_CORE_H

#include <stddef.h>
#include <stdint.h>

#include "relay-frame.h"

/* Room for the longest answer, and one byte that an answer too long would need. */
#define RELAY_ANSWER_ROOM ((size_t)ANSWER_HEADER_BYTES + STDOUT_BYTES_MAX + STDERR_BYTES_MAX + 1)

enum relay_verb {
	RELAY_ABOUT,      /* no arguments, no CNI_COMMAND */
	RELAY_STANDALONE, /* the command line, or no verb that we know */
	RELAY_VERSION,
	RELAY_ADD,
	RELAY_DEL,
	RELAY_CHECK,
	RELAY_GC,
	RELAY_STATUS,
};

/* `command`: CNI_COMMAND or NULL. */
enum relay_verb relay_verb_of(int argc, const char *command);

/* Whether a call that may have taken effect can be made once more. */
int relay_is_repeatable(enum relay_verb verb);

/* Packs the CNI_* variables, each with its NUL. Returns the bytes written, or SIZE_MAX where `room` is too small. */
size_t relay_pack_env(char *const *env, uint8_t *out, size_t room);

void relay_encode_header(uint8_t out[REQUEST_HEADER_BYTES], uint32_t env_bytes, uint32_t stdin_bytes);

enum relay_state {
	RELAY_NOTHING,  /* no marker yet: nothing was done */
	RELAY_REFUSED, /* nothing was or will be done */
	RELAY_PENDING,  /* taken, answer not complete */
	RELAY_BROKEN,   /* no answer of ours: whatever it is, it may have acted */
	RELAY_COMPLETE,
};

/* The two texts point into the parsed bytes. */
struct relay_answer {
	const uint8_t *out;
	const uint8_t *err;
	uint32_t out_bytes;
	uint32_t err_bytes;
	uint8_t exit_code;
};

/* Reads all bytes received so far, marker first; *answer is set with RELAY_COMPLETE only. */
enum relay_state relay_parse_answer(const uint8_t *bytes, size_t length, struct relay_answer *answer);

/* `agent_timeout_ms` of a network configuration, 1 to 600000; else `otherwise`. A number after this key is looked for, no JSON
 * parsed: what pods bring along is strings, where quotes are escaped and no number follows a key. */
int64_t relay_find_timeout(const uint8_t *input, size_t bytes, int64_t otherwise);

/* Decimal milliseconds, 1 to 600000; anything else (NULL too) is `otherwise`. */
int64_t relay_parse_timeout(const char *text, int64_t otherwise);

/* One CNI error object. `msg` is plain ASCII without quotes or backslashes; `error`: errno to name in the details, or
 * 0. Returns the bytes written: fewer than 512 for a `msg` of up to 300. */
size_t relay_format_error(char out[512], unsigned code, const char *msg, unsigned error);

/* `directory of` self + "/" + name into `out` with NUL; 0, or -1 where there is no directory or no room. */
int relay_path_beside(const char *self, const char *name, char *out, size_t room);

#endif
