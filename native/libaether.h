/* libaether: what cannot be done from JavaScript, or only too slowly. Entering network namespaces (never with
 * the main thread), sending one prepared netlink batch to many namespaces, collecting a dump, pinning a
 * namespace, encoding thousands of set elements. It decides nothing: bytes and paths come from the caller.
 *
 * Everywhere: 0 or a count is success, a negative number is -errno; nothing is printed; any number of calls may run at
 * once on different threads, and nothing is kept between them but sockets that wait for their closing. Buffers belong to the
 * caller unless it says otherwise, and must stay in place until the call returns. */
#ifndef LIBAETHER_H
#define LIBAETHER_H

#include <stddef.h>
#include <stdint.h>

/* Where an operation on a namespace ended. AE_STAGE_KERNEL: the kernel read the message and refused it. */
enum ae_stage {
	AE_STAGE_NONE = 0,
	AE_STAGE_OPEN = 1,      /* the path could not be opened */
	AE_STAGE_NOT_NETNS = 2, /* it is no network namespace */
	AE_STAGE_FORBIDDEN = 3, /* it is this process's own namespace, or that of pid 1 */
	AE_STAGE_ENTER = 4,     /* setns refused */
	AE_STAGE_SOCKET = 5,
	AE_STAGE_SEND = 6,
	AE_STAGE_RECEIVE = 7,   /* no or no full answer */
	AE_STAGE_KERNEL = 8,
	AE_STAGE_PEER = 9,      /* the process whose view was asked for has ended */
	AE_STAGE_NOTE = 10,     /* ae_enter: the note could not be made */
	AE_STAGE_PIN = 11,      /* ae_enter: the pin could not be made */
};

/* Every path of a namespace may be written `@<pid>:<pidfd>:<path>`: as the process sees it, below its root directory and
 * through its mounts. The pidfd is the caller's; after opening it must still stand for a living process, or the number could
 * have become another's meanwhile. */

/* One namespace's outcome. error: positive errno, 0 is success. message: index in the batch of the message refused
 * (the BATCH_BEGIN is 0), -1 where there is none. flows: connections that the kernel tracks in the namespace after the
 * batch; 0 also where no table is left there, because nothing translates them then. */
struct ae_outcome {
	int32_t error;
	int32_t stage;
	int32_t message;
	uint32_t flows; /* with AE_COUNT_FLOWS */
};

/* The sockets of a batch that deletes something are closed later, on a thread that nobody waits for: closing one at
 * once waits for an RCU grace period. */
#define AE_CLOSE_LATE 1u
/* Fill in outcome.flows: some microseconds. */
#define AE_COUNT_FLOWS 2u
/* Use a new namespace instead of each that is named; it is gone afterwards. */
#define AE_NEW_NAMESPACE 4u

/* Opens the namespace after checking what it is. Returns a close-on-exec descriptor that the caller closes, or -errno
 * with *stage set. */
int ae_netns_open(const char *path, int32_t *stage);

/* The check of ae_netns_open alone: 0, or -errno with *stage set. */
int32_t ae_netns_check(const char *path, int32_t *stage);

/* Which namespace it is: device and inode number. 0, or -errno with *stage set. */
int32_t ae_netns_identify(const char *path, uint64_t identity[2], int32_t *stage);

/* A NETLINK_NETFILTER socket of the namespace, opened by a thread that enters it and ends. Returns the descriptor,
 * close-on-exec, the caller's to close; or -errno with *stage set. */
int32_t ae_netns_socket(const char *path, int32_t *stage);

/* Sends one batch to `count` namespaces, one transaction each. `paths`: that many NUL-terminated strings, one after
 * another. `batch`: BATCH_BEGIN to BATCH_END, sequence numbers ascending by one, NLM_F_ACK on the last message
 * before BATCH_END and on no other. A failure in one namespace does not keep the others from being tried. Returns
 * the number of failures, or -errno where nothing was tried. */
int32_t ae_transact(const char *paths, uint32_t count, const uint8_t *batch, uint32_t length, uint32_t flags,
		    struct ae_outcome *outcomes);

/* What a dump came to. interrupted: the kernel's data changed meanwhile, ask again. */
struct ae_dump {
	int64_t handle;
	int64_t length;
	int32_t stage;
	int32_t interrupted;
};

/* Sends the requests (whole netlink messages of NETLINK_NETFILTER or another protocol, one after another) one by one and
 * collects every reply message, final NLMSG_DONE and NLMSG_ERROR too. A request NLMSG_NOOP is not sent: it waits for the
 * end of the nf_tables transaction that is under way, if there is one. On success the replies belong to dump->handle
 * until ae_dump_take. -errno: nothing to take. */
int32_t ae_dump_collect(const char *path, uint32_t protocol, const uint8_t *requests, uint32_t length,
			struct ae_dump *dump);

/* Copies the replies to `into` (length bytes, or NULL to drop them) and frees them. A handle is taken once. */
int32_t ae_dump_take(int64_t handle, uint8_t *into, int64_t length);

/* How the pins' directory is seen by mount namespaces that have it from this one. */
enum ae_sharing {
	AE_SHARING_SHARED = 0, /* it lies on a shared mount: pins arrive */
	AE_SHARING_MADE = 1,   /* it has become a shared mount of its own: pins arrive in namespaces that begin later */
	AE_SHARING_SLAVE = 2,  /* the mount has a master elsewhere, which sees no pins */
};

/* Makes the directory as ae_pin does, and sees to it that it lies on a shared mount. Pins that are there stay. Returns an
 * ae_sharing, the same every time but for MADE; or -errno. */
int32_t ae_share_pins(const char *dir);

/* Bind-mounts the namespace at <dir>/<name>. The directory is made where it is missing (its parents too), and is root's
 * alone (0700) afterwards unless it is in use: then its mode stays, and it is refused (EPERM) where others may write to
 * it. Symbolic links in place of the directory or the file are refused or replaced, never followed. A pin of that name is
 * replaced. *stage is set where the namespace was at fault. 0 or -errno. */
int32_t ae_pin(const char *path, const char *dir, const char *name, int32_t *stage);

/* Unmounts (lazily) and removes <dir>/<name>. 0 also when there is nothing; else -errno. */
int32_t ae_unpin(const char *dir, const char *name);

/* What an ADD came to. device, inode: which namespace it is. has_rules: the batch was taken. flows: connections tracked then. */
struct ae_entered {
	uint64_t device, inode;
	int32_t stage;
	int32_t has_rules;
	uint32_t flows;
};

/* What ADD does first, in one step: opens the namespace, makes the file <note_dir>/<name> with the note (only where there is
 * none: -EEXIST at AE_STAGE_NOTE), pins as ae_pin does, sends the batch (length 0: none). `pin_dir` '': no pin. 0, whatever became
 * of the batch; or -errno with the stage set and nothing left of it. `note_dir` must exist. */
int32_t ae_enter(const char *path, const char *note_dir, const char *pin_dir, const char *name, const uint8_t *note,
		 uint32_t note_length, const uint8_t *batch, uint32_t length, struct ae_entered *entered);

/* What DEL does last, in one step: sends the batch, which takes tables away, to the namespace of the first of the paths (as
 * ae_transact has them) that leads to one (none: nothing to send), unpins, removes the note. 0: done. 1: the batch was refused, or
 * connections are tracked that want settling; pin and note are left. -errno: the last two were not both done. */
int32_t ae_leave(const char *paths, uint32_t count, const char *note_dir, const char *pin_dir, const char *name,
		 const uint8_t *batch, uint32_t length);

/* Writes <dir>/<name> in one step: whoever looks sees the old content or the new, mode 0600. Not flushed to the disk: meant
 * to survive this process, not the machine. 0 or -errno. */
int32_t ae_replace_file(const char *dir, const char *name, const uint8_t *bytes, uint32_t length);

/* Removes <dir>/<name>. 0 also when there is none; else -errno. */
int32_t ae_remove_file(const char *dir, const char *name);

/* A pidfd of a unix socket's peer, close-on-exec, the caller's; or -errno, -ESRCH where the peer has ended. */
int32_t ae_peer_pidfd(int32_t fd);

/* Gives back what this process can do without until it touches it again: pages of the program's and the libraries' files that
 * are as in the file (they stay in the system's page cache), and free memory that malloc keeps. Returns the KiB of file
 * pages let go, or -errno. */
int64_t ae_trim_memory(void);

/* Appends messages of `type` (NFT_MSG_NEWSETELEM, …) for `count` elements of a set to `out`, `per_message` each, with
 * sequence numbers from `seq` on. `keys`: count times key_length bytes in network order. `ends`: one byte an element,
 * 1 marks the exclusive end of an interval. Returns the bytes written; -ENOBUFS where `room` is too small, -ENOMEM. */
int64_t ae_encode_elements(const char *table, const char *set, uint32_t type, uint32_t nlmsg_flags, uint32_t seq,
			   const uint8_t *keys, uint32_t key_length, const uint8_t *ends, uint32_t count,
			   uint32_t per_message, uint8_t *out, uint32_t room);

#endif
