/* Network namespaces: finding and recognising one, working inside one apart from everybody else, a netlink socket in it. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif
#define MIN_BUFFER (256 * 1024)
#define RECEIVE_TIMEOUT_S 10

static int is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int leads_to(const char *path, const struct stat *found)
{
	struct stat st;

	return stat(path, &st) == 0 && is_same_file(found, &st);
}

static int fail(int fd, int error, int32_t stage, int32_t *at)
{
	if (fd >= 0)
		close(fd);
	*at = stage;
	return -error;
}

static int open_path(const char *path)
{
	int fd;

	if (*path == AE_PEER_VIEW)
		return ae_open_in_view(path);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Neither leaves its namespace, which lives as long as they do: looked up once. /proc/self is the main thread. One that could not
 * be looked at stays all zero, which no namespace is. */
static struct stat homes[2];
static pthread_once_t homes_once = PTHREAD_ONCE_INIT;

static void find_homes(void)
{
	(void)stat("/proc/self/ns/net", &homes[0]);
	(void)stat("/proc/1/ns/net", &homes[1]);
}

/* The host's and our own; whoever asks has one of its own, too. */
static int is_forbidden(const struct stat *st, const char *path)
{
	char own[40];

	pthread_once(&homes_once, find_homes);
	if (is_same_file(st, &homes[0]) || is_same_file(st, &homes[1]))
		return 1;
	if (*path != AE_PEER_VIEW)
		return 0;
	snprintf(own, sizeof own, "/proc/%d/ns/net", atoi(path + 1));
	return leads_to(own, st);
}

int ae_netns_open(const char *path, int32_t *stage)
{
	struct statfs fs;
	struct stat st;
	char link[32];
	int probe, fd;

	/* O_PATH first: opening what is not a namespace (a FIFO, a device) may block or do something. */
	probe = open_path(path);
	if (probe < 0)
		return fail(-1, -probe, probe == -ESRCH ? AE_STAGE_PEER : AE_STAGE_OPEN, stage);
	if (fstatfs(probe, &fs) < 0)
		return fail(probe, errno, AE_STAGE_OPEN, stage);
	if (fs.f_type != NSFS_MAGIC)
		return fail(probe, EINVAL, AE_STAGE_NOT_NETNS, stage);
	snprintf(link, sizeof link, "/proc/self/fd/%d", probe);
	fd = open(link, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(probe, errno, AE_STAGE_OPEN, stage);
	close(probe);
	if (ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNET)
		return fail(fd, EINVAL, AE_STAGE_NOT_NETNS, stage);
	if (fstat(fd, &st) < 0)
		return fail(fd, errno, AE_STAGE_OPEN, stage);
	if (is_forbidden(&st, path))
		return fail(fd, EPERM, AE_STAGE_FORBIDDEN, stage);
	*stage = AE_STAGE_NONE;
	return fd;
}

int32_t ae_netns_check(const char *path, int32_t *stage)
{
	int fd = ae_netns_open(path, stage);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int32_t ae_netns_identify(const char *path, uint64_t identity[2], int32_t *stage)
{
	int fd = ae_netns_open(path, stage);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return fail(fd, errno, AE_STAGE_OPEN, stage);
	identity[0] = st.st_dev;
	identity[1] = st.st_ino;
	close(fd);
	return 0;
}

_Thread_local int ae_is_passing;
_Thread_local enum ae_place ae_place;

static int go_home(void)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), error = 0;

	if (home < 0)
		return -errno;
	if (setns(home, CLONE_NEWNET) < 0)
		error = -errno;
	close(home);
	return error;
}

int ae_work_apart(void *(*work)(void *), void *argument)
{
	pthread_t thread;
	int error;

	if (ae_is_passing) {
		work(argument);
		error = go_home();
		ae_place = error == 0 ? AE_BACK_HOME : AE_AWAY;
		return error;
	}
	error = pthread_create(&thread, NULL, work, argument);
	/* It leaves the pod by ending: no thread that goes on was ever elsewhere, so none can be left there. */
	if (error == 0)
		error = pthread_join(thread, NULL);
	return -error;
}

/* Best effort where the privilege for the FORCE form is missing: small batches fit anyway. */
static void set_buffer(int fd, int force, int plain, int size)
{
	if (setsockopt(fd, SOL_SOCKET, force, &size, sizeof size) < 0)
		(void)setsockopt(fd, SOL_SOCKET, plain, &size, sizeof size);
}

static int open_netlink(int protocol, uint32_t length, int32_t *stage)
{
	struct timeval timeout = {.tv_sec = RECEIVE_TIMEOUT_S};
	int size = length > MIN_BUFFER / 2 ? (int)length * 2 : MIN_BUFFER;
	int on = 1, fd;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		return fail(-1, errno, AE_STAGE_SOCKET, stage);
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, size);
	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, size);
	/* An ACK of a refused message would carry the whole message back. */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	return fd;
}

int ae_enter_open(int netns, int protocol, uint32_t length, int32_t *stage)
{
	if (setns(netns, CLONE_NEWNET) < 0)
		return fail(-1, errno, AE_STAGE_ENTER, stage);
	return open_netlink(protocol, length, stage);
}

int ae_enter_and_open(const char *path, int protocol, uint32_t length, int32_t *stage)
{
	int netns = ae_netns_open(path, stage), fd;

	if (netns < 0)
		return netns;
	fd = ae_enter_open(netns, protocol, length, stage);
	close(netns);
	return fd;
}

int ae_unshare_and_open(int protocol, uint32_t length, int32_t *stage)
{
	if (unshare(CLONE_NEWNET) < 0)
		return fail(-1, errno, AE_STAGE_ENTER, stage);
	return open_netlink(protocol, length, stage);
}

struct open_job {
	const char *path;
	int32_t *stage;
	int fd;
};

static void *open_socket(void *argument)
{
	struct open_job *job = argument;

	job->fd = ae_enter_and_open(job->path, NETLINK_NETFILTER, 0, job->stage);
	return NULL;
}

int32_t ae_netns_socket(const char *path, int32_t *stage)
{
	struct open_job job = {.path = path, .stage = stage, .fd = -EAGAIN};
	int error = ae_work_apart(open_socket, &job);

	return error < 0 ? error : job.fd;
}
