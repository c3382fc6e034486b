/* Pins: a namespace bind-mounted at a file of ours, so that it outlives its processes. */
#define _GNU_SOURCE
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

int ae_is_plain_name(const char *name)
{
	return name[0] != '\0' && strlen(name) <= NAME_MAX && !strchr(name, '/') && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

/* Makes every missing directory of the path; the last one 0700, the others as mkdir(1) would. */
static int make_directories(const char *dir)
{
	char path[PATH_MAX];
	size_t length = strlen(dir);

	if (length == 0 || length >= sizeof path)
		return -ENAMETOOLONG;
	memcpy(path, dir, length + 1);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

int ae_open_directory(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int is_empty(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (!stream) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	/* "." and "..". */
	while (count < 3 && readdir(stream))
		count++;
	closedir(stream);
	return count < 3;
}

/* Somebody else's directory is not taken over: its owner could swap pins, and so could whoever may write to it. One that
 * holds nothing is made root's alone; the mode of one in use (/run, by a slip) is not ours to change. */
static int take_over(int dir_fd)
{
	struct stat st;

	if (fstat(dir_fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	if ((st.st_mode & 077) && is_empty(dir_fd))
		return fchmod(dir_fd, 0700) < 0 ? -errno : 0;
	return st.st_mode & 022 ? -EPERM : 0;
}

int ae_open_pin_directory(const char *dir)
{
	int fd = ae_open_directory(dir), error;

	if (fd == -ENOENT) {
		error = make_directories(dir);
		if (error < 0)
			return error;
		fd = ae_open_directory(dir);
	}
	if (fd < 0)
		return fd;
	error = take_over(fd);
	if (error < 0) {
		close(fd);
		return error;
	}
	return fd;
}

int ae_unmount_entry(int dir_fd, const char *name)
{
	char path[NAME_MAX + 40];

	snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dir_fd, name);
	while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		;
	/* No mount, nothing there, a link. */
	return errno == EINVAL || errno == ENOENT || errno == ELOOP ? 0 : -errno;
}

/* Unmounts the entry and removes it. */
static int remove_pin(int dir_fd, const char *name)
{
	int error = ae_unmount_entry(dir_fd, name);

	if (error < 0)
		return error;
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

static int create_target(int dir_fd, const char *name)
{
	for (int attempt = 0; attempt < 3; attempt++) {
		int error, fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
		error = remove_pin(dir_fd, name);
		if (error < 0)
			return error;
	}
	return -EEXIST;
}

int ae_pin_open(int netns, const char *dir, const char *name)
{
	char source[32], target[32];
	int dir_fd = ae_open_pin_directory(dir), file, error = 0;

	if (dir_fd < 0)
		return dir_fd;
	file = create_target(dir_fd, name);
	if (file < 0) {
		error = file;
	} else {
		/* By descriptor on both sides: nobody can put a link in between. */
		snprintf(source, sizeof source, "/proc/self/fd/%d", netns);
		snprintf(target, sizeof target, "/proc/self/fd/%d", file);
		if (mount(source, target, NULL, MS_BIND, NULL) < 0) {
			error = -errno;
			(void)unlinkat(dir_fd, name, 0);
		}
		close(file);
	}
	close(dir_fd);
	return error;
}

int32_t ae_pin(const char *path, const char *dir, const char *name, int32_t *stage)
{
	int netns, error;

	*stage = AE_STAGE_NONE;
	if (!ae_is_plain_name(name))
		return -EINVAL;
	netns = ae_netns_open(path, stage);
	if (netns < 0)
		return netns;
	error = ae_pin_open(netns, dir, name);
	close(netns);
	return error;
}

int32_t ae_unpin(const char *dir, const char *name)
{
	int dir_fd, error;

	if (!ae_is_plain_name(name))
		return -EINVAL;
	dir_fd = ae_open_directory(dir);
	if (dir_fd == -ENOENT)
		return 0;
	if (dir_fd < 0)
		return dir_fd;
	error = remove_pin(dir_fd, name);
	close(dir_fd);
	return error;
}
