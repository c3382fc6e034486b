/* One connection of a relay: a whole request, the marker, an answer; or its end. See relay-listener.h. A request that has come
 * with its connection, and an answer that the kernel takes at once, need no more than the system calls for them. */
#define _GNU_SOURCE
#include "relay-connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* What one turn of the event loop takes of a connection at most. */
#define READS_PER_TURN 4

static void watch(struct relay_listener *l, struct connection *c, uint32_t events)
{
	struct epoll_event wanted = {.events = events, .data.fd = c->fd};

	/* Where that fails, the connection's deadline is what is left. */
	if (epoll_ctl(l->epoll, c->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &wanted) == 0)
		c->is_watched = 1;
}

static void leave_line(struct connection *c)
{
	if (!c->line)
		return;
	TAILQ_REMOVE(&c->line->connections, c, link);
	c->line->length--;
	c->line = NULL;
}

static void join_line(struct relay_listener *l, struct line *line, struct connection *c, uint32_t patience_ms)
{
	/* The loop's own time is that of its turn, which may have been a long one. */
	uv_update_time(l->loop);
	c->deadline = uv_now(l->loop) + patience_ms;
	c->line = line;
	TAILQ_INSERT_TAIL(&line->connections, c, link);
	line->length++;
	relay_set_timer(l);
}

void relay_connection_end(struct relay_listener *l, struct connection *c)
{
	leave_line(c);
	l->by_fd[c->fd] = NULL;
	l->count--;
	close(c->fd);
	free(c->bytes);
	free(c);
	relay_end_unused(l);
}

static int tell(struct relay_listener *l, enum relay_event event, const struct connection *c, struct relay_told told)
{
	told.fd = c->fd;
	told.pid = c->peer.pid;
	told.uid = c->peer.uid;
	told.gid = c->peer.gid;
	return l->options.tell(l->options.user, event, &told);
}

struct relay_told relay_reason(const char *text)
{
	return (struct relay_told){.text = {text, strlen(text)}};
}

void relay_connection_lose(struct relay_listener *l, struct connection *c, enum relay_event event, const char *why)
{
	struct connection was = *c;

	relay_connection_end(l, c);
	tell(l, event, &was, relay_reason(why));
}

static int append(struct connection *c, const uint8_t *bytes, size_t length)
{
	uint8_t *longer = realloc(c->bytes, c->length + length);

	if (!longer)
		return 0;
	memcpy(longer + c->length, bytes, length);
	c->bytes = longer;
	c->length += length;
	return 1;
}

static void hand_over(struct relay_listener *l, struct connection *c, const struct relay_request_parts *parts)
{
	struct relay_told told = {.text = parts->input, .variables = parts->variables};
	uint8_t *bytes = c->bytes; /* The user may end the connection at once. */

	leave_line(c);
	c->bytes = NULL;
	c->length = 0;
	l->has_request = 1;
	if (!tell(l, RELAY_REQUEST, c, told))
		relay_connection_end(l, c);
	free(bytes);
}

/* Looks at the next `length` bytes, which are in l->read. 0: this connection is not read any more. */
static int take_bytes(struct relay_listener *l, struct connection *c, size_t length)
{
	struct relay_request_parts parts;
	char problem[RELAY_PROBLEM_ROOM] = "no memory";
	int is_first = c->length == 0;
	enum relay_request_state state = RELAY_REQUEST_WRONG;

	if (is_first)
		state = relay_parse_request(l->read, length, &parts, problem);
	else if (append(c, l->read, length))
		state = relay_parse_request(c->bytes, c->length, &parts, problem);
	if (state == RELAY_REQUEST_PART && (!is_first || append(c, l->read, length)))
		return 1;
	if (state == RELAY_REQUEST_WHOLE)
		hand_over(l, c, &parts);
	else
		relay_connection_lose(l, c, RELAY_DROPPED, problem);
	return 0;
}

static void wait_for_request(struct relay_listener *l, struct connection *c)
{
	if (c->line)
		return;
	join_line(l, &l->reading, c, l->options.request_ms);
	watch(l, c, EPOLLIN | EPOLLRDHUP);
	if (l->reading.length > l->options.pending_max)
		relay_connection_lose(l, TAILQ_FIRST(&l->reading.connections), RELAY_DROPPED, "too many clients without a request");
}

void relay_connection_read(struct relay_listener *l, struct connection *c)
{
	for (int i = 0; i < READS_PER_TURN; i++) {
		ssize_t got = recv(c->fd, l->read, sizeof l->read, MSG_DONTWAIT);

		if (got < 0 && errno == EAGAIN)
			break;
		if (got <= 0) {
			/* It has gone before anybody heard of it. */
			relay_connection_end(l, c);
			return;
		}
		if (!take_bytes(l, c, (size_t)got))
			return;
	}
	wait_for_request(l, c);
}

static void write_answer(struct relay_listener *l, struct connection *c)
{
	ssize_t done = send(c->fd, c->bytes + c->sent, c->length - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (done < 0 && errno == EAGAIN)
		return;
	if (done > 0)
		c->sent += (size_t)done;
	if (done < 0 || c->sent == c->length)
		relay_connection_lose(l, c, RELAY_GONE, "");
}

/* A peer should be silent while its call is the user's. */
static void look_at_peer(struct relay_listener *l, struct connection *c)
{
	uint8_t byte;
	ssize_t got = recv(c->fd, &byte, 1, MSG_DONTWAIT);

	if (got > 0)
		relay_connection_lose(l, c, RELAY_DROPPED, RELAY_MORE_THAN_ONE);
	else if (got == 0 || errno != EAGAIN)
		relay_connection_lose(l, c, RELAY_GONE, "");
}

struct connection *relay_find(const struct relay_listener *l, int fd)
{
	return fd >= 0 && fd < l->room ? l->by_fd[fd] : NULL;
}

/* 0: no memory. */
static int make_room(struct relay_listener *l, int fd)
{
	int room = fd + 64;
	struct connection **by_fd;

	if (fd < l->room)
		return 1;
	by_fd = realloc(l->by_fd, (size_t)room * sizeof *by_fd);
	if (!by_fd)
		return 0;
	memset(by_fd + l->room, 0, (size_t)(room - l->room) * sizeof *by_fd);
	l->by_fd = by_fd;
	l->room = room;
	return 1;
}

struct connection *relay_connection_open(struct relay_listener *l, int fd)
{
	struct connection *c = make_room(l, fd) ? calloc(1, sizeof *c) : NULL;

	if (!c)
		return NULL;
	c->fd = fd;
	l->by_fd[fd] = c;
	l->count++;
	return c;
}

void relay_connection_look(struct relay_listener *l, struct connection *c)
{
	if (!c->line)
		look_at_peer(l, c);
	else if (c->line == &l->reading)
		relay_connection_read(l, c);
	else
		write_answer(l, c);
}

int relay_listener_has(const struct relay_listener *l, int fd)
{
	struct connection *c = relay_find(l, fd);

	return c && !c->line;
}

/* A signal that comes meanwhile says nothing about the peer. */
static int is_there(int fd)
{
	struct pollfd peer = {.fd = fd, .events = POLLRDHUP};
	int found;

	do
		found = poll(&peer, 1, 0);
	while (found < 0 && errno == EINTR);
	return found == 0;
}

int relay_listener_take(struct relay_listener *l, int fd)
{
	static const uint8_t marker = MARKER_TAKEN;

	if (send(fd, &marker, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 && is_there(fd))
		return 1;
	relay_connection_end(l, relay_find(l, fd));
	return 0;
}

void relay_listener_watch(struct relay_listener *l, int fd)
{
	struct connection *c = relay_find(l, fd);

	if (!c->is_watched)
		watch(l, c, EPOLLIN | EPOLLRDHUP);
}

enum relay_answered relay_listener_answer(struct relay_listener *l, int fd, const uint8_t *bytes, size_t length)
{
	struct connection *c = relay_find(l, fd);
	uint8_t more;
	ssize_t done;

	/* Bytes that are left unread would take the answer from the peer. */
	if (recv(fd, &more, 1, MSG_DONTWAIT) > 0) {
		relay_connection_end(l, c);
		return RELAY_UNWANTED;
	}
	done = send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (done < 0 && errno == EAGAIN)
		done = 0;
	if (done < 0 || (size_t)done == length || !append(c, bytes + done, length - (size_t)done)) {
		relay_connection_end(l, c);
		return RELAY_ENDED;
	}
	join_line(l, &l->answering, c, l->options.answer_ms);
	watch(l, c, EPOLLOUT);
	return RELAY_GOES_ON;
}

void relay_listener_drop(struct relay_listener *l, int fd)
{
	relay_connection_end(l, relay_find(l, fd));
}
