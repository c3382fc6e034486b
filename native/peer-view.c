/* Files as another process sees them: a container's runtime may have mounts that this process has not. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* asm-generic/socket.h, 6.5 */
#endif

/* A pidfd becomes readable when its process ends. */
static int is_alive(int pidfd)
{
	struct pollfd one = {.fd = pidfd, .events = POLLIN};

	return poll(&one, 1, 0) == 0;
}

/* Absolute links lead from the other's root; a path of its /proc has links that are none, which only an ordinary open follows. */
static int open_below(int root, const char *root_path, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char whole[4200];
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);

	if (fd < 0 && (errno == EXDEV || errno == ELOOP)) {
		if (snprintf(whole, sizeof whole, "%s%s", root_path, path) >= (int)sizeof whole)
			return -ENAMETOOLONG;
		fd = open(whole, O_PATH | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

int ae_open_in_view(const char *path)
{
	char *rest, root_path[40];
	long pid = strtol(path + 1, &rest, 10), pidfd = -1;
	int root, fd;

	if (*rest == ':')
		pidfd = strtol(rest + 1, &rest, 10);
	if (pid <= 0 || pidfd < 0 || *rest != ':')
		return -EINVAL;
	snprintf(root_path, sizeof root_path, "/proc/%ld/root", pid);
	root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	fd = open_below(root, root_path, rest + 1);
	close(root);
	/* Alive now: then the number was its own all the time. */
	if (!is_alive((int)pidfd)) {
		if (fd >= 0)
			close(fd);
		return -ESRCH;
	}
	return fd;
}

static int is_connected(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLRDHUP};

	return poll(&one, 1, 0) == 0;
}

/* Before 6.5: whoever holds the other end is alive, so the number is still its own. */
static int open_pidfd_of_peer(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	pidfd = peer.pid > 0 ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;
	if (pidfd < 0)
		return -ESRCH;
	if (!is_connected(fd)) {
		close(pidfd);
		return -ESRCH;
	}
	return pidfd;
}

int32_t ae_peer_pidfd(int32_t fd)
{
	socklen_t size = sizeof(int);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	return errno == ENOPROTOOPT ? open_pidfd_of_peer(fd) : -errno;
}
