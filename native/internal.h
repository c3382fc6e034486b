/* What the files of libaether share with each other and show to nobody. */
#ifndef AETHER_INTERNAL_H
#define AETHER_INTERNAL_H

#include "libaether.h"

/* Runs `work` on a fresh thread and waits for its end. The thread may change its namespace: it is never used again. */
int ae_on_fresh_thread(void *(*work)(void *), void *argument);

/* Only on such a thread: enters the namespace and opens a netlink socket of `protocol` (NETLINK_NETFILTER, …) there, with
 * buffers for `length` bytes sent. The descriptor or -errno. */
int ae_enter_and_open(const char *path, int protocol, uint32_t length, int32_t *stage);

/* The same in a new namespace, which ends with the thread and its sockets. */
int ae_unshare_and_open(int protocol, uint32_t length, int32_t *stage);

/* Opens the pins' directory, made where it is missing, root's alone afterwards. The descriptor or -errno. */
int ae_open_pin_directory(const char *dir);

/* Unmounts whatever is stacked on the directory's entry. 0 or -errno. */
int ae_unmount_entry(int dir_fd, const char *name);

#endif
