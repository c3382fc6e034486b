/* Lets relays in, and keeps their time; see relay-listener.h. On the event loop, without a thread: one epoll descriptor holds
 * the listening socket and whichever connections are waited for, and the loop watches that one alone. */
#define _GNU_SOURCE
#include "relay-connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* What one turn of the event loop takes at most, and only until it has a request: what a call does at once is far more than this
 * listener does, and a crowd of calls must leave the loop to others in between. */
#define EVENTS_PER_TURN 16
#define DROPS_PER_TURN 64
/* Without descriptors or memory for another connection, nobody is let in for so long. */
#define PAUSE_MS 100

static int watch_socket(struct relay_listener *l)
{
	struct epoll_event wanted = {.events = EPOLLIN, .data.fd = l->socket};

	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->socket, &wanted);
}

static void on_time(uv_timer_t *handle);

void relay_set_timer(struct relay_listener *l)
{
	struct connection *reading = TAILQ_FIRST(&l->reading.connections), *answering = TAILQ_FIRST(&l->answering.connections);
	uint64_t now = uv_now(l->loop), next = l->resume_at ? l->resume_at : UINT64_MAX;

	if (reading && reading->deadline < next)
		next = reading->deadline;
	if (answering && answering->deadline < next)
		next = answering->deadline;
	if (next != UINT64_MAX)
		uv_timer_start(&l->timer, on_time, next > now ? next - now : 0, 0);
}

static void on_closed(uv_handle_t *handle)
{
	struct relay_listener *l = handle->data;

	if (--l->open_handles)
		return;
	l->options.ended(l->options.user);
	free(l->by_fd);
	free(l);
}

void relay_end_unused(struct relay_listener *l)
{
	if (l->socket >= 0 || l->count || l->epoll < 0)
		return;
	uv_close((uv_handle_t *)&l->poll, on_closed);
	uv_close((uv_handle_t *)&l->timer, on_closed);
	close(l->epoll);
	l->epoll = -1;
}

/* The backlog would wake the loop without end. */
static void pause_accepting(struct relay_listener *l, int error)
{
	struct relay_told told = relay_reason(uv_err_name(-error));
	int was_failing = l->is_failing;

	epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->socket, NULL);
	l->resume_at = uv_now(l->loop) + PAUSE_MS;
	l->is_failing = 1;
	relay_set_timer(l);
	told.fd = -1;
	if (!was_failing)
		l->options.tell(l->options.user, RELAY_FAILED, &told);
}

static void accept_one(struct relay_listener *l)
{
	socklen_t size = sizeof(struct ucred);
	struct connection *c;
	int fd = accept4(l->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accepting(l, errno);
		return;
	}
	l->is_failing = 0;
	c = relay_connection_open(l, fd);
	if (!c) {
		close(fd);
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &size) < 0 || c->peer.uid != 0)
		relay_connection_lose(l, c, RELAY_REFUSED, "");
	else
		relay_connection_read(l, c);
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
	struct relay_listener *l = handle->data;
	struct epoll_event ready;

	(void)status;
	(void)events;
	l->has_request = 0;
	/* One by one: each may end what the next would be about, or the listener. */
	for (int n = 0; n < EVENTS_PER_TURN && !l->has_request && epoll_wait(l->epoll, &ready, 1, 0) == 1; n++) {
		int fd = ready.data.fd;
		struct connection *c = relay_find(l, fd);

		if (fd == l->socket)
			accept_one(l);
		else if (c)
			relay_connection_look(l, c);
	}
}

static void drop_late(struct relay_listener *l, struct line *line, const char *why)
{
	for (int n = 0; n < DROPS_PER_TURN; n++) {
		struct connection *first = TAILQ_FIRST(&line->connections);

		if (!first || first->deadline > uv_now(l->loop))
			return;
		relay_connection_lose(l, first, RELAY_DROPPED, why);
	}
}

static void on_time(uv_timer_t *handle)
{
	struct relay_listener *l = handle->data;

	if (l->resume_at && l->resume_at <= uv_now(l->loop))
		l->resume_at = watch_socket(l) < 0 ? uv_now(l->loop) + PAUSE_MS : 0;
	drop_late(l, &l->reading, "no whole request in time");
	drop_late(l, &l->answering, "answer not taken in time");
	if (l->epoll >= 0)
		relay_set_timer(l);
}

/* Or -1 with errno. */
static int open_socket(const struct relay_listening *options, const char **what)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

	*what = "socket";
	if (fd < 0)
		return -1;
	*what = "bind";
	errno = ENAMETOOLONG;
	if (strlen(options->path) < sizeof address.sun_path) {
		strcpy(address.sun_path, options->path);
		/* A socket's own mode becomes its file's. */
		if (fchmod(fd, options->mode) == 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
		    listen(fd, (int)options->backlog) == 0)
			return fd;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* 0, or -1 with errno. */
static int start_handles(struct relay_listener *l)
{
	int status;

	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0)
		return -1;
	status = watch_socket(l) < 0 ? -errno : uv_poll_init(l->loop, &l->poll, l->epoll);
	if (status < 0) {
		close(l->epoll);
		errno = -status;
		return -1;
	}
	uv_timer_init(l->loop, &l->timer);
	/* Whoever is waited for keeps the loop alive, not a deadline. */
	uv_unref((uv_handle_t *)&l->timer);
	l->poll.data = l->timer.data = l;
	l->open_handles = 2;
	uv_poll_start(&l->poll, UV_READABLE, on_ready);
	return 0;
}

struct relay_listener *relay_listener_start(uv_loop_t *loop, const struct relay_listening *options, const char **what,
					    int *error)
{
	struct relay_listener *l = calloc(1, sizeof *l);

	*what = "memory";
	*error = ENOMEM;
	if (!l)
		return NULL;
	l->options = *options;
	l->options.path = NULL;
	l->loop = loop;
	TAILQ_INIT(&l->reading.connections);
	TAILQ_INIT(&l->answering.connections);
	l->socket = open_socket(options, what);
	if (l->socket >= 0 && start_handles(l) == 0)
		return l;
	*error = errno;
	if (l->socket >= 0)
		close(l->socket);
	free(l);
	return NULL;
}

void relay_listener_stop(struct relay_listener *l)
{
	struct connection *c;

	if (l->socket < 0)
		return;
	close(l->socket);
	l->socket = -1;
	l->resume_at = 0;
	while ((c = TAILQ_FIRST(&l->reading.connections)))
		relay_connection_end(l, c);
	relay_end_unused(l);
}

void relay_listener_kill(struct relay_listener *l)
{
	relay_listener_stop(l);
	for (int fd = 0; fd < l->room; fd++)
		if (l->by_fd[fd])
			relay_connection_end(l, l->by_fd[fd]);
}
