/* The pins' directory on a shared mount: only what is mounted on such a one arrives in other mount namespaces, as in that of
 * an Envoy in a container (Kubernetes: mountPropagation HostToContainer). */
#define _GNU_SOURCE
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the mount's optional fields: "36 35 98:0 /root /point options shared:1 master:2 - ext4 …". */
static int read_sharing(unsigned long long mount_id)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	int sharing = -ENOENT;

	if (!file)
		return -errno;
	while (sharing == -ENOENT && getline(&line, &room, file) >= 0) {
		char *end = strstr(line, " - ");

		if (strtoull(line, NULL, 10) != mount_id || !end)
			continue;
		*end = '\0';
		sharing = strstr(line, " shared:") ? AE_SHARING_SHARED
			: strstr(line, " master:") ? AE_SHARING_SLAVE
						   : AE_SHARING_MADE;
	}
	free(line);
	fclose(file);
	return sharing;
}

/* The directory under itself, as a mount with its own propagation. Its pins come along; below it they are let go, or each
 * would keep its namespace for ever. */
static int mount_on_itself(const char *dir, int dir_fd)
{
	struct dirent *entry;
	DIR *list;

	if (mount(dir, dir, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -errno;
	if (mount(NULL, dir, NULL, MS_SHARED, NULL) < 0) {
		int error = -errno;

		(void)umount2(dir, MNT_DETACH);
		return error;
	}
	list = fdopendir(dup(dir_fd));
	if (!list)
		return -errno;
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			(void)ae_unmount_entry(dir_fd, entry->d_name);
	closedir(list);
	return AE_SHARING_MADE;
}

int32_t ae_share_pins(const char *dir)
{
	struct statx about;
	int sharing, dir_fd = ae_open_pin_directory(dir);

	if (dir_fd < 0)
		return dir_fd;
	if (statx(dir_fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &about) < 0)
		sharing = -errno;
	else
		sharing = about.stx_mask & STATX_MNT_ID ? read_sharing(about.stx_mnt_id) : -ENOSYS;
	if (sharing == AE_SHARING_MADE)
		sharing = mount_on_itself(dir, dir_fd);
	close(dir_fd);
	return sharing;
}
