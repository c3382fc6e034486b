/* Asking a namespace's kernel: requests one by one, every reply kept as it came. */
#define _GNU_SOURCE
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

struct dump_job {
	const char *path;
	int protocol;
	const uint8_t *requests;
	uint32_t length;
	struct ae_dump *dump;
	uint8_t *bytes;
	size_t used, room;
	int error;
};

static int make_room(struct dump_job *job)
{
	size_t room = job->room ? job->room * 2 : 2 * CHUNK;
	uint8_t *bytes;

	if (job->room - job->used >= CHUNK)
		return 0;
	bytes = realloc(job->bytes, room);
	if (!bytes)
		return -ENOMEM;
	job->bytes = bytes;
	job->room = room;
	return 0;
}

/* 1 when the answer to `seq` is complete, 0 when more will come. */
static int is_last(struct dump_job *job, size_t from, uint32_t seq)
{
	const struct nlmsghdr *m = (const void *)(job->bytes + from);
	int left = (int)(job->used - from), last = 0;

	for (; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
		if (m->nlmsg_seq != seq)
			continue;
		if (m->nlmsg_flags & NLM_F_DUMP_INTR)
			job->dump->interrupted = 1;
		if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR || !(m->nlmsg_flags & NLM_F_MULTI))
			last = 1;
	}
	return last;
}

static int send_out(struct dump_job *job, int fd, const void *bytes, size_t length)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (sendto(fd, bytes, length, 0, (struct sockaddr *)&kernel, sizeof kernel) >= 0)
		return 0;
	job->dump->stage = AE_STAGE_SEND;
	return -errno;
}

/* An empty batch: sendto does the kernel's work itself, and that begins with the lock of the transaction under way. Only
 * a refusal has an answer, which the next request collects. */
static int await_transaction(struct dump_job *job, int fd)
{
	struct {
		struct nlmsghdr header;
		struct nfgenmsg family;
	} batch[2];

	memset(batch, 0, sizeof batch);
	for (int i = 0; i < 2; i++) {
		batch[i].header.nlmsg_len = sizeof batch[i];
		batch[i].header.nlmsg_type = i == 0 ? NFNL_MSG_BATCH_BEGIN : NFNL_MSG_BATCH_END;
		batch[i].header.nlmsg_flags = NLM_F_REQUEST;
		batch[i].family.nfgen_family = AF_UNSPEC;
		batch[i].family.version = NFNETLINK_V0;
		batch[i].family.res_id = htons(NFNL_SUBSYS_NFTABLES);
	}
	return send_out(job, fd, batch, sizeof batch);
}

static int ask(struct dump_job *job, int fd, const struct nlmsghdr *request)
{
	int failure;

	if (request->nlmsg_type == NLMSG_NOOP)
		return await_transaction(job, fd);
	failure = send_out(job, fd, request, request->nlmsg_len);
	if (failure < 0)
		return failure;
	for (;;) {
		size_t from = job->used;
		int error = make_room(job);
		ssize_t size;

		if (error < 0)
			return error;
		size = recv(fd, job->bytes + job->used, job->room - job->used, 0);
		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0) {
			job->dump->stage = AE_STAGE_RECEIVE;
			return -errno;
		}
		job->used += NLMSG_ALIGN((size_t)size);
		if (is_last(job, from, request->nlmsg_seq))
			return 0;
	}
}

static void *collect(void *argument)
{
	struct dump_job *job = argument;
	const struct nlmsghdr *request = (const void *)job->requests;
	int left = (int)job->length, fd = ae_enter_and_open(job->path, job->protocol, 0, &job->dump->stage);

	if (fd < 0) {
		job->error = fd;
		return NULL;
	}
	for (; job->error == 0 && NLMSG_OK(request, left); request = NLMSG_NEXT(request, left))
		job->error = ask(job, fd, request);
	close(fd);
	return NULL;
}

int32_t ae_dump_collect(const char *path, uint32_t protocol, const uint8_t *requests, uint32_t length,
			struct ae_dump *dump)
{
	struct dump_job job = {
		.path = path, .protocol = (int)protocol, .requests = requests, .length = length, .dump = dump};
	int error;

	memset(dump, 0, sizeof *dump);
	error = ae_work_apart(collect, &job);
	if (error == 0)
		error = job.error;
	if (error < 0) {
		free(job.bytes);
		return error;
	}
	dump->handle = (int64_t)(intptr_t)job.bytes;
	dump->length = (int64_t)job.used;
	return 0;
}

int32_t ae_dump_take(int64_t handle, uint8_t *into, int64_t length)
{
	uint8_t *bytes = (uint8_t *)(intptr_t)handle;

	if (into && bytes)
		memcpy(into, bytes, (size_t)length);
	free(bytes);
	return 0;
}
