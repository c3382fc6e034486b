/* What the files of libaether share with each other and show to nobody. */
#ifndef AETHER_INTERNAL_H
#define AETHER_INTERNAL_H

#include "libaether.h"

/* Set on a thread that nobody else works on and that ends after it was elsewhere: it may enter a pod itself. */
extern _Thread_local int ae_is_passing;

enum ae_place { AE_AT_HOME, AE_BACK_HOME, AE_AWAY };
/* Whether this thread was ever in another namespace, and is there still. */
extern _Thread_local enum ae_place ae_place;

/* Runs `work`, which may change its thread's network namespace, on a thread that ends with it: a fresh one, where the caller's
 * is not such a thread already. That one goes back home at once, so that nobody is in the pod when the caller has its answer,
 * and nothing that it begins is there. 0, or -errno where that did not work. */
int ae_work_apart(void *(*work)(void *), void *argument);

/* First byte of a path that is another process's: see libaether.h. */
#define AE_PEER_VIEW '@'

/* Opens such a path with O_PATH. The descriptor, or -errno; -ESRCH: the process has ended, so it may not be its view. */
int ae_open_in_view(const char *path);

/* Only inside ae_work_apart: enters the namespace and opens a netlink socket of `protocol` (NETLINK_NETFILTER, …) there, with
 * buffers for `length` bytes sent. The descriptor or -errno. */
int ae_enter_and_open(const char *path, int protocol, uint32_t length, int32_t *stage);
/* The same by an open namespace. */
int ae_enter_open(int netns, int protocol, uint32_t length, int32_t *stage);

/* ae_transact for one open namespace, not with AE_CLOSE_LATE. 0: see the outcome. */
int ae_transact_in(int netns, const uint8_t *batch, uint32_t length, uint32_t flags, struct ae_outcome *outcome);

/* The same in a new namespace, which ends with the thread and its sockets. */
int ae_unshare_and_open(int protocol, uint32_t length, int32_t *stage);

/* Opens the pins' directory, made where it is missing, root's alone afterwards. The descriptor or -errno. */
int ae_open_pin_directory(const char *dir);

/* Opens a directory, no link to one. The descriptor or -errno. */
int ae_open_directory(const char *dir);

/* Whether it names a file of a directory and nothing else. */
int ae_is_plain_name(const char *name);

/* Pins an open namespace, as ae_pin. */
int ae_pin_open(int netns, const char *dir, const char *name);

/* Unmounts whatever is stacked on the directory's entry. 0 or -errno. */
int ae_unmount_entry(int dir_fd, const char *name);

#endif
