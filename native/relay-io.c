/* What the relay does to the world; see relay-io.h. */
#define _GNU_SOURCE
#include "relay-io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* linux/memfd.h, 6.3 */
#endif

/* How long a full backlog of the agent is waited for before it counts as away. */
#define CONNECT_MS 1000
#define CONNECT_STEP_MS 10

int64_t relay_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now); /* vDSO: no system call */
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* 1: ready (or broken, the next call will tell), 0: out of time. */
static int wait_for(int fd, short events, int64_t deadline_ms)
{
	for (;;) {
		struct pollfd one = { .fd = fd, .events = events };
		int64_t left = deadline_ms - relay_now_ms();
		if (left <= 0)
			left = 0;
		int ready = poll(&one, 1, left > INT_MAX ? INT_MAX : (int)left);
		if (ready >= 0)
			return ready;
		if (errno != EINTR && errno != EAGAIN)
			return 1;
	}
}

int relay_read_stdin(uint8_t *into, size_t room, size_t *bytes, int idle_ms, int64_t total_ms)
{
	int64_t end = relay_now_ms() + total_ms;
	size_t used = 0;

	for (;;) {
		int64_t idle = relay_now_ms() + idle_ms;
		*bytes = used;
		if (!wait_for(STDIN_FILENO, POLLIN, idle < end ? idle : end))
			return ETIMEDOUT;
		/* One more than allowed shows what is too long; `into` has that byte. */
		ssize_t got = read(STDIN_FILENO, into + used, room + 1 - used);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0 && errno != EBADF)
			return errno;
		if (got <= 0)
			break;
		used += (size_t)got;
		if (used > room)
			return E2BIG;
	}
	return 0;
}

int relay_write(int fd, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;

	while (length) {
		ssize_t done = write(fd, from, length);
		if (done < 0 && errno == EAGAIN)
			wait_for(fd, POLLOUT, INT64_MAX / 2);
		else if (done < 0 && errno != EINTR)
			return errno;
		if (done > 0) {
			from += done;
			length -= (size_t)done;
		}
	}
	return 0;
}

/* A connected socket that does not block, or -1 with errno. */
static int connect_to(const char *path, int64_t deadline_ms)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t bytes = strlen(path) + 1;
	int64_t end = relay_now_ms() + CONNECT_MS;

	if (bytes > sizeof address.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, path, bytes);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		int error = errno;
		int64_t now = relay_now_ms();
		/* EAGAIN: the backlog is full. Hanging agents and bursts look alike here. */
		if (error != EINTR && (error != EAGAIN || now >= end || now >= deadline_ms)) {
			close(fd);
			errno = error;
			return -1;
		}
		poll(NULL, 0, CONNECT_STEP_MS);
	}
	return fd;
}

/* 0 when the whole request is in the kernel's hands, else errno. */
static int send_request(int fd, const struct relay_request *request, int64_t deadline_ms)
{
	uint8_t header[REQUEST_HEADER_BYTES];
	struct iovec parts[3] = {
		{ .iov_base = header, .iov_len = sizeof header },
		{ .iov_base = (void *)(uintptr_t)request->env, .iov_len = request->env_bytes },
		{ .iov_base = (void *)(uintptr_t)request->input, .iov_len = request->input_bytes },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };

	relay_encode_header(header, request->env_bytes, request->input_bytes);
	for (;;) {
		ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (sent < 0 && errno == EAGAIN) {
			if (!wait_for(fd, POLLOUT, deadline_ms))
				return ETIMEDOUT;
			continue;
		}
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno;
		size_t rest = (size_t)sent;
		while (message.msg_iovlen && rest >= message.msg_iov->iov_len) {
			rest -= message.msg_iov->iov_len;
			message.msg_iov++;
			message.msg_iovlen--;
		}
		if (!message.msg_iovlen)
			return 0;
		message.msg_iov->iov_base = (uint8_t *)message.msg_iov->iov_base + rest;
		message.msg_iov->iov_len -= rest;
	}
}

/* "/proc/<pid>/stat" */
static void stat_path(char path[32], unsigned pid)
{
	char digits[10];
	char *end = stpcpy(path, "/proc/");
	int count = 0;

	do
		digits[count++] = (char)('0' + pid % 10);
	while ((pid /= 10));
	while (count)
		*end++ = digits[--count];
	strcpy(end, "/stat");
}

/* Whether the peer's first thread has a processor or waits for one: what it has not read yet it will. */
static int is_running(int fd)
{
	char path[32], text[128];
	struct ucred peer;
	socklen_t bytes = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
		return 0;
	stat_path(path, (unsigned)peer.pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	ssize_t length = read(file, text, sizeof text - 1);
	close(file);
	if (length <= 0)
		return 0;
	text[length] = 0;
	/* "1 (a name with) any bytes) R 0 ..." */
	const char *name_end = strrchr(text, ')');
	return name_end && !strncmp(name_end, ") R", 3);
}

/* Whether an agent that has not taken the call yet is only busy: it has read the call and has others before it, or it has not
 * come to reading. Else it hangs. */
static int is_busy(int fd)
{
	int unread = 0;

	return (ioctl(fd, TIOCOUTQ, &unread) == 0 && unread == 0) || is_running(fd);
}

/* Reads until the answer is complete or there can be none. */
static enum relay_state receive_answer(int fd, const struct relay_deadlines *deadlines, uint8_t *bytes,
				       struct relay_answer *answer, int *error)
{
	enum relay_state state = RELAY_NOTHING;
	size_t used = 0;
	int found_busy = 0, ended = 0;

	while (state == RELAY_NOTHING || state == RELAY_PENDING) {
		int64_t take_ms = found_busy ? deadlines->take_ms : deadlines->read_ms;
		int64_t deadline_ms = state == RELAY_NOTHING ? take_ms : deadlines->answer_ms;

		if (!ended && !wait_for(fd, POLLIN, deadline_ms)) {
			if (state == RELAY_NOTHING && !found_busy && is_busy(fd)) {
				found_busy = 1;
				continue;
			}
			/* From here on the agent's marker fails, and it acts on nothing whose marker failed: what has not
			 * arrived by now was not done. What has is still there to be read. */
			shutdown(fd, SHUT_RDWR);
			*error = ETIMEDOUT;
			ended = 1;
		}
		ssize_t got = read(fd, bytes + used, RELAY_ANSWER_ROOM - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN && !ended)
			continue;
		if (got < 0 && !*error)
			*error = errno;
		if (got <= 0)
			break;
		used += (size_t)got;
		state = relay_parse_answer(bytes, used, answer);
	}
	return state;
}

enum relay_state relay_call(const char *path, const struct relay_request *request, const struct relay_deadlines *deadlines,
			    uint8_t *bytes, struct relay_answer *answer, int *error)
{
	enum relay_state state = RELAY_NOTHING;
	int fd = connect_to(path, deadlines->read_ms);

	*error = 0;
	if (fd < 0) {
		*error = errno;
		return state;
	}
	/* Only a whole request is acted on. */
	*error = send_request(fd, request, deadlines->read_ms);
	if (!*error)
		state = receive_answer(fd, deadlines, bytes, answer, error);
	/* Before anything is printed: where stdout was closed, the socket has its number. */
	close(fd);
	return state;
}

/* Makes `input` the stdin of whatever is executed next, as a sealed file that has no name. 0 or errno. Where stdin was
 * closed, the file may get its number and is closed again by execve, which leaves things as they were. */
static int replace_stdin(const uint8_t *input, size_t bytes)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("stdin", flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("stdin", flags);
	if (fd < 0)
		return errno;
	int error = relay_write(fd, input, bytes);
	if (error)
		return error;
	if (lseek(fd, 0, SEEK_SET) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ||
	    dup2(fd, STDIN_FILENO) < 0)
		return errno;
	return 0;
}

/* The path of this program, with NUL. The kernel adds " (deleted)" to the name of one that is gone, which does not touch
 * its directory. Without /proc there is what the caller executed. */
static int own_path(char *out, size_t room)
{
	ssize_t length = readlink("/proc/self/exe", out, room - 1);

	if (length > 0) {
		out[length] = 0;
		return 0;
	}
	const char *executed = (const char *)getauxval(AT_EXECFN);
	if (!executed || strlen(executed) >= room)
		return -1;
	strcpy(out, executed);
	return 0;
}

/* A link from the standalone name to this program would be executed for ever. */
static int is_same_file(const char *one, const char *other)
{
	struct stat a, b;

	return !stat(one, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int relay_exec_beside(const char *name, char **argv, char **env, const uint8_t *input, size_t bytes)
{
	char self[PATH_MAX], path[PATH_MAX];

	if (own_path(self, sizeof self) || relay_path_beside(self, name, path, sizeof path))
		return ENOENT;
	if (is_same_file(self, path))
		return ELOOP;
	if (input) {
		int error = replace_stdin(input, bytes);
		if (error)
			return error;
	}
	/* By its own name that program knows that the agent was asked. */
	if (argv[0])
		argv[0] = path;
	execve(path, argv, env);
	return errno;
}
