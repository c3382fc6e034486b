/* Preloaded (LD_PRELOAD) into a process under test, never part of the product: counts what the process does to the world,
 * a step a call, and kills it instead of letting it do its Nth step; or denies it one kind of step.
 *
 *   AETHER_FAULT_ARM   a file with the number N; counting begins when it is there, so that a resident process can be armed
 *                      at any time. The process dies by SIGKILL just before its Nth step; 0: it only counts
 *   AETHER_FAULT_LOG   a file to which every step counted is appended: `<function> <last part of the path, or ->`
 *   AETHER_FAULT_SKIP  a part of a path: what a process does there now and again by itself is no step
 *   AETHER_FAULT_DENY  `<function> <part of a path>`: such a call fails with EACCES, counted or not
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static atomic_long count;
static atomic_long target = -1;

/* Raw system calls: what is wrapped below must not count itself. */
static long raw_read(const char *path, char *into, size_t room)
{
	long got, fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	got = syscall(SYS_read, fd, into, room);
	syscall(SYS_close, fd);
	return got;
}

static int is_armed(void)
{
	const char *path = getenv("AETHER_FAULT_ARM");
	char text[32] = "";

	if (atomic_load(&target) >= 0)
		return 1;
	if (!path || raw_read(path, text, sizeof text - 1) <= 0)
		return 0;
	atomic_store(&target, strtol(text, NULL, 10));
	return 1;
}

static const char *last_part(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "-";
}

static void log_step(const char *name, const char *path)
{
	const char *file = getenv("AETHER_FAULT_LOG");
	char line[256];
	long fd;

	if (!file)
		return;
	int length = snprintf(line, sizeof line, "%s %s\n", name, last_part(path));
	fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	syscall(SYS_write, fd, line, length < (int)sizeof line ? length : (int)sizeof line - 1);
	syscall(SYS_close, fd);
}

static int is_denied(const char *name, const char *path)
{
	const char *deny = getenv("AETHER_FAULT_DENY");
	size_t length = strlen(name);

	if (!deny || !path || strncmp(deny, name, length) != 0 || deny[length] != ' ')
		return 0;
	return strstr(path, deny + length + 1) != NULL;
}

static int is_skipped(const char *path)
{
	const char *skip = getenv("AETHER_FAULT_SKIP");

	return skip && path && strstr(path, skip);
}

/* 0, or -1 with errno: the call must not be made. */
static int step(const char *name, const char *path)
{
	int before = errno;

	if (is_denied(name, path)) {
		errno = EACCES;
		return -1;
	}
	if (!is_skipped(path) && is_armed()) {
		long now = atomic_fetch_add(&count, 1) + 1;

		log_step(name, path);
		if (now == atomic_load(&target)) {
			syscall(SYS_kill, getpid(), SIGKILL);
			for (;;)
				pause();
		}
	}
	errno = before;
	return 0;
}

/* Wake-ups between threads (eventfd, pipe) are no steps. */
static int is_counted_fd(int fd)
{
	struct stat st;

	return fd == 1 || fd == 2 || (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode)));
}

#define WRAP(result, name, parameters, arguments, path) \
	result name parameters \
	{ \
		static result(*real) parameters; \
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		if (step(#name, path) < 0) \
			return -1; \
		return real arguments; \
	}

#define WRAP_FD(result, name, parameters, arguments) \
	result name parameters \
	{ \
		static result(*real) parameters; \
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		if (is_counted_fd(fd) && step(#name, NULL) < 0) \
			return -1; \
		return real arguments; \
	}

WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), path)
WRAP(int, rmdir, (const char *path), (path), path)
WRAP(int, unlink, (const char *path), (path), path)
WRAP(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags), path)
WRAP(int, rename, (const char *from, const char *to), (from, to), to)
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode), path)
WRAP(int, mount, (const char *from, const char *to, const char *type, unsigned long flags, const void *data),
     (from, to, type, flags, data), NULL)
WRAP(int, umount2, (const char *path, int flags), (path, flags), path)
WRAP(int, setns, (int fd, int type), (fd, type), NULL)
WRAP(int, fsync, (int fd), (fd), NULL)
WRAP(int, fdatasync, (int fd), (fd), NULL)
WRAP(ssize_t, sendto, (int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to, socklen_t size),
     (fd, bytes, n, flags, to, size), NULL)
WRAP(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags), NULL)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), NULL)
WRAP_FD(ssize_t, write, (int fd, const void *bytes, size_t n), (fd, bytes, n))
WRAP_FD(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n))
WRAP_FD(ssize_t, pwrite, (int fd, const void *bytes, size_t n, off_t at), (fd, bytes, n, at))
WRAP_FD(ssize_t, pwrite64, (int fd, const void *bytes, size_t n, off64_t at), (fd, bytes, n, at))

static const char *path_of(const struct sockaddr *address)
{
	return address && address->sa_family == AF_UNIX ? ((const struct sockaddr_un *)address)->sun_path : NULL;
}

WRAP(int, connect, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), path_of(to))
WRAP(int, bind, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), path_of(to))

/* Only an open that may make something is a step; any can be denied. */
#define WRAP_OPEN(name, parameters, arguments) \
	int name parameters \
	{ \
		static int(*real) parameters; \
		mode_t mode = 0; \
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		if (flags & (O_CREAT | __O_TMPFILE)) { \
			va_list list; \
			va_start(list, flags); \
			mode = va_arg(list, mode_t); \
			va_end(list); \
		} \
		if (is_denied("open", path)) { \
			errno = EACCES; \
			return -1; \
		} \
		if ((flags & O_CREAT) && step("open", path) < 0) \
			return -1; \
		return real arguments; \
	}

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
WRAP_OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
