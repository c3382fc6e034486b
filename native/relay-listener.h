/* The agent's end of relay.sock on an event loop of libuv; see relay-listener.c. Nothing here knows JavaScript, which
 * relay-addon.c brings in.
 *
 * A connection is known by its descriptor. It is the listener's until its request is whole; from RELAY_REQUEST on it is its
 * user's, until RELAY_DROPPED or RELAY_GONE is told of it or one of the calls below has ended it. */
#ifndef RELAY_LISTENER_H
#define RELAY_LISTENER_H

#include "relay-request.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* src/adapters/relay/relay-listener.ts has the numbers of both, too. */
enum relay_event {
	RELAY_REQUEST, /* text: its stdin */
	RELAY_REFUSED, /* not root */
	RELAY_DROPPED, /* text: why; of a connection without a request, too */
	RELAY_GONE,    /* the peer has, or has its answer */
	RELAY_FAILED,  /* text: the errno that lets nobody in; tried again */
};
enum relay_answered {
	RELAY_ENDED,
	RELAY_GOES_ON, /* the rest is sent as it is taken; RELAY_GONE or RELAY_DROPPED follows */
	RELAY_UNWANTED, /* ended without: the peer has sent more than one request */
};

struct relay_told {
	struct relay_text text;
	const struct relay_text *variables; /* of a request, RELAY_VARIABLES; else NULL */
	int fd;
	int32_t pid;
	uint32_t uid, gid;
};

struct relay_listening {
	const char *path;
	uint32_t mode; /* less what the umask takes, from the first moment */
	uint32_t backlog;
	uint32_t request_ms; /* from accept to the whole request */
	uint32_t answer_ms;  /* for the peer to take an answer that does not fit its socket */
	uint32_t pending_max; /* connections without a whole request */
	void *user;
	/* On the event loop, never from within a call below. 0: it could not be told. */
	int (*tell)(void *user, enum relay_event event, const struct relay_told *told);
	/* After relay_listener_stop(), when the last connection has ended; the listener is no more. */
	void (*ended)(void *user);
};

struct relay_listener;

/* NULL with *what and *error, an errno. Keeps the loop alive until it ends. */
struct relay_listener *relay_listener_start(uv_loop_t *loop, const struct relay_listening *options, const char **what,
					    int *error);

/* Whether the descriptor is a connection of the user's. */
int relay_listener_has(const struct relay_listener *l, int fd);

/* Marks the call as taken. 0: the peer has gone, so the call may not be acted on; the connection is ended. */
int relay_listener_take(struct relay_listener *l, int fd);

/* From now on what the peer does is told; else only what it has done is seen, with the answer. */
void relay_listener_watch(struct relay_listener *l, int fd);

enum relay_answered relay_listener_answer(struct relay_listener *l, int fd, const uint8_t *bytes, size_t length);

/* Ends it without a word. */
void relay_listener_drop(struct relay_listener *l, int fd);

/* Accepts nobody and reads no request any more. */
void relay_listener_stop(struct relay_listener *l);

/* Stops, and ends every connection. */
void relay_listener_kill(struct relay_listener *l);

#endif
