/* A container's attachment in one step each: what ADD does first, what DEL does last; and small files of ours. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes a new file; one that is there stays as it is. */
static int make_file(int dir_fd, const char *name, const uint8_t *bytes, uint32_t length)
{
	int fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600), error = 0;
	ssize_t done;

	if (fd < 0)
		return -errno;
	done = write(fd, bytes, length);
	if (done != (ssize_t)length) {
		error = done < 0 ? -errno : -ENOSPC;
		(void)unlinkat(dir_fd, name, 0);
	}
	close(fd);
	return error;
}

static int enter(int netns, const char *note_dir, const char *pin_dir, const char *name, const uint8_t *note,
		 uint32_t note_length, int32_t *stage)
{
	int dir_fd, error;

	*stage = AE_STAGE_NOTE;
	dir_fd = ae_open_directory(note_dir);
	error = dir_fd < 0 ? dir_fd : make_file(dir_fd, name, note, note_length);
	if (error == 0 && *pin_dir) {
		*stage = AE_STAGE_PIN;
		error = ae_pin_open(netns, pin_dir, name);
		if (error < 0)
			(void)unlinkat(dir_fd, name, 0);
	}
	if (dir_fd >= 0)
		close(dir_fd);
	if (error == 0)
		*stage = AE_STAGE_NONE;
	return error;
}

int32_t ae_enter(const char *path, const char *note_dir, const char *pin_dir, const char *name, const uint8_t *note,
		 uint32_t note_length, const uint8_t *batch, uint32_t length, struct ae_entered *entered)
{
	struct ae_outcome outcome;
	struct stat st;
	int netns, error;

	memset(entered, 0, sizeof *entered);
	if (!ae_is_plain_name(name))
		return -EINVAL;
	netns = ae_netns_open(path, &entered->stage);
	if (netns < 0)
		return netns;
	if (fstat(netns, &st) == 0) {
		entered->device = st.st_dev;
		entered->inode = st.st_ino;
	}
	error = enter(netns, note_dir, pin_dir, name, note, note_length, &entered->stage);
	if (error == 0 && length > 0 && ae_transact_in(netns, batch, length, AE_COUNT_FLOWS, &outcome) == 0) {
		entered->has_rules = outcome.error == 0;
		entered->flows = outcome.flows;
	}
	close(netns);
	return error;
}

int32_t ae_replace_file(const char *dir, const char *name, const uint8_t *bytes, uint32_t length)
{
	char aside[NAME_MAX + 1];
	int dir_fd, error;

	/* The name of one that is being written, as atomic-file.ts knows it. */
	if (!ae_is_plain_name(name) || snprintf(aside, sizeof aside, ".%s-00000000-0000-0000-0000-000000000000.tmp", name) >= (int)sizeof aside)
		return -ENAMETOOLONG;
	dir_fd = ae_open_directory(dir);
	if (dir_fd < 0)
		return dir_fd;
	/* What a crash left. Two writers of one name are the caller's to keep apart. */
	(void)unlinkat(dir_fd, aside, 0);
	error = make_file(dir_fd, aside, bytes, length);
	if (error == 0 && renameat(dir_fd, aside, dir_fd, name) < 0) {
		error = -errno;
		(void)unlinkat(dir_fd, aside, 0);
	}
	close(dir_fd);
	return error;
}

int32_t ae_remove_file(const char *dir, const char *name)
{
	int dir_fd, error = 0;

	if (!ae_is_plain_name(name))
		return -EINVAL;
	dir_fd = ae_open_directory(dir);
	if (dir_fd < 0)
		return dir_fd == -ENOENT ? 0 : dir_fd;
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		error = -errno;
	close(dir_fd);
	return error;
}

/* The rules went with the namespace; what is none never had any. */
static int is_gone(const struct ae_outcome *outcome)
{
	return outcome->stage == AE_STAGE_NOT_NETNS || outcome->stage == AE_STAGE_FORBIDDEN ||
	       (outcome->stage == AE_STAGE_OPEN && (outcome->error == ENOENT || outcome->error == ENOTDIR));
}

/* By the first path that leads to a namespace. */
static int take_rules(const char *paths, uint32_t count, const uint8_t *batch, uint32_t length, struct ae_outcome *outcome)
{
	for (uint32_t i = 0; i < count; i++, paths += strlen(paths) + 1) {
		int error = ae_transact(paths, 1, batch, length, AE_CLOSE_LATE | AE_COUNT_FLOWS, outcome);

		if (error < 0 || !is_gone(outcome))
			return error;
		*outcome = (struct ae_outcome){0};
	}
	return 0;
}

int32_t ae_leave(const char *paths, uint32_t count, const char *note_dir, const char *pin_dir, const char *name, const uint8_t *batch,
		 uint32_t length)
{
	struct ae_outcome outcome = {0};
	int error;

	if (!ae_is_plain_name(name))
		return -EINVAL;
	error = take_rules(paths, count, batch, length, &outcome);
	if (error < 0)
		return error;
	if (outcome.flows > 0 || outcome.error != 0)
		return 1;
	error = ae_unpin(pin_dir, name);
	return error < 0 ? error : ae_remove_file(note_dir, name);
}
