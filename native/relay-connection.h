/* What the two files of the listener share with each other and show to nobody; see relay-listener.h. */
#ifndef RELAY_CONNECTION_H
#define RELAY_CONNECTION_H

#include "relay-listener.h"

#include <sys/queue.h>
#include <sys/socket.h>

#define READ_BYTES (64 * 1024)

struct connection {
	TAILQ_ENTRY(connection) link;
	struct line *line; /* that it stands in; NULL: it is the user's */
	uint64_t deadline;
	struct ucred peer;
	int fd;
	int is_watched;
	uint8_t *bytes; /* of the request so far, or the answer's rest */
	size_t length, sent;
};

/* In the order of their deadlines. */
struct line {
	TAILQ_HEAD(, connection) connections;
	uint32_t length;
};

struct relay_listener {
	struct relay_listening options; /* but the path */
	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t timer;
	int open_handles;
	int epoll, socket;  /* -1: closed */
	uint64_t resume_at; /* 0: it accepts */
	int is_failing;	    /* and that was told */
	int has_request;    /* one was handed over in this turn */
	struct line reading, answering;
	struct connection **by_fd;
	int room, count;
	uint8_t read[READ_BYTES];
};

/* The user's or in a line; NULL where there is none. */
struct connection *relay_find(const struct relay_listener *l, int fd);

/* Takes over an accepted descriptor. NULL: no memory. */
struct connection *relay_connection_open(struct relay_listener *l, int fd);
void relay_connection_end(struct relay_listener *l, struct connection *c);

/* Ends a connection and says so. Everything may have changed when this returns, as after the next two. */
void relay_connection_lose(struct relay_listener *l, struct connection *c, enum relay_event event, const char *why);

/* Reads what there is of its request, and waits for the rest. */
void relay_connection_read(struct relay_listener *l, struct connection *c);

/* Something has happened at a connection that is watched; or nothing. */
void relay_connection_look(struct relay_listener *l, struct connection *c);

struct relay_told relay_reason(const char *text);

/* Deadlines have changed. */
void relay_set_timer(struct relay_listener *l);

/* Ends the listener where it has stopped and the last connection has ended. */
void relay_end_unused(struct relay_listener *l);

#endif
