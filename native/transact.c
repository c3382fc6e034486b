/* One batch, many namespaces: enter, send, read the answers, leave the closing to a thread that nobody waits for. */
#define _GNU_SOURCE
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Longer than the grace periods seen (5 to 35 ms): by then the kernel's deferred work is done and close() is free. */
#define CLOSE_DELAY_NS (60 * 1000 * 1000L)

/* Sockets of one batch that wait for their closing. */
struct late {
	struct late *next;
	struct timespec due;
	uint32_t count;
	int fds[];
};

struct batch {
	const uint8_t *bytes;
	uint32_t length;
	uint32_t first; /* sequence number of BATCH_BEGIN */
	uint32_t acked; /* sequence number of the message that asks for an ACK */
};

struct transact_job {
	const char *paths; /* NULL: into `netns`, which is open */
	int netns;
	uint32_t count;
	struct batch batch;
	struct late *late; /* NULL: close at once */
	uint32_t flags;    /* AE_* */
	struct ae_outcome *outcomes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static struct late *waiting, **waiting_end = &waiting;
static int has_closer;

static void close_all(struct late *late)
{
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &late->due, NULL) == EINTR)
		;
	for (uint32_t i = 0; i < late->count; i++)
		close(late->fds[i]);
	free(late);
}

/* One thread for all, from the first batch that deletes on; it sleeps while there is nothing to close. */
static void *closer(void *argument)
{
	(void)argument;
	for (;;) {
		struct late *late;

		pthread_mutex_lock(&lock);
		while (!waiting)
			pthread_cond_wait(&came, &lock);
		late = waiting;
		waiting = late->next;
		if (!waiting)
			waiting_end = &waiting;
		pthread_mutex_unlock(&lock);
		close_all(late);
	}
	return NULL;
}

static int start_closer(void)
{
	pthread_attr_t detached;
	pthread_t thread;
	int started = 0;

	if (pthread_attr_init(&detached) == 0) {
		pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
		started = pthread_create(&thread, &detached, closer, NULL) == 0;
		pthread_attr_destroy(&detached);
	}
	return started;
}

/* Takes `late`. Without a thread the closing is done here: slow beats a leak. A thread that is begun here inherits the namespace
 * of the caller, which must be home. */
static void close_late(struct late *late)
{
	clock_gettime(CLOCK_MONOTONIC, &late->due);
	late->due.tv_nsec += CLOSE_DELAY_NS;
	if (late->due.tv_nsec >= 1000000000) {
		late->due.tv_nsec -= 1000000000;
		late->due.tv_sec++;
	}
	late->next = NULL;
	pthread_mutex_lock(&lock);
	has_closer = has_closer || start_closer();
	if (has_closer) {
		*waiting_end = late;
		waiting_end = &late->next;
		late = NULL;
		pthread_cond_signal(&came);
	}
	pthread_mutex_unlock(&lock);
	if (late)
		close_all(late);
}

static int read_batch(struct batch *batch)
{
	const struct nlmsghdr *message = (const void *)batch->bytes;
	int left = (int)batch->length, found = 0;

	if (!NLMSG_OK(message, left))
		return -EINVAL;
	batch->first = message->nlmsg_seq;
	for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left))
		if (message->nlmsg_flags & NLM_F_ACK) {
			batch->acked = message->nlmsg_seq;
			found++;
		}
	return left == 0 && found == 1 ? 0 : -EINVAL;
}

static void refuse(struct ae_outcome *outcome, int error, int32_t stage, int32_t message)
{
	if (outcome->error != 0)
		return; /* the first one counts */
	outcome->error = error;
	outcome->stage = stage;
	outcome->message = message;
}

/* The kernel has answered before sendto returns, so nothing is waited for here: read until the queue is empty. */
static void read_answers(int fd, const struct batch *batch, struct ae_outcome *outcome)
{
	_Alignas(struct nlmsghdr) char buffer[16384];
	int confirmed = 0;

	for (;;) {
		ssize_t size = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
		int left = (int)size;

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0) {
			if (errno != EAGAIN)
				refuse(outcome, errno, AE_STAGE_RECEIVE, -1);
			break;
		}
		for (struct nlmsghdr *m = (void *)buffer; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
			const struct nlmsgerr *answer = NLMSG_DATA(m);

			if (m->nlmsg_type != NLMSG_ERROR || m->nlmsg_seq - batch->first > batch->length)
				continue; /* not an answer to this batch */
			if (answer->error != 0)
				refuse(outcome, -answer->error, AE_STAGE_KERNEL, (int32_t)(m->nlmsg_seq - batch->first));
			else if (m->nlmsg_seq == batch->acked)
				confirmed = 1;
		}
	}
	if (!confirmed)
		refuse(outcome, EPROTO, AE_STAGE_RECEIVE, -1);
}

/* Asks netfilter; the length of what came first, -1 where nothing did. */
static ssize_t ask(int fd, uint16_t type, uint16_t flags, void *answer, size_t room)
{
	struct {
		struct nlmsghdr head;
		struct nfgenmsg body;
	} request = {.head = {.nlmsg_len = sizeof request, .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags}};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (sendto(fd, &request, sizeof request, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
		return -1;
	return recv(fd, answer, room, MSG_DONTWAIT);
}

/* Some nf_tables table is in the socket's namespace; also said where the kernel's answer cannot be read. */
static int has_tables(int fd)
{
	struct nlmsghdr first;

	if (ask(fd, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE, NLM_F_DUMP, &first, sizeof first) < (ssize_t)sizeof first)
		return 1;
	return first.nlmsg_type != NLMSG_DONE;
}

/* What conntrack says of the socket's namespace; 0: it is not to be asked by netlink. */
static int ask_flow_count(int fd, uint32_t *count)
{
	_Alignas(struct nlmsghdr) char answer[256];
	const uint16_t type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET_STATS;
	const struct nlmsghdr *head = (const void *)answer;
	ssize_t size = ask(fd, type, 0, answer, sizeof answer);
	int left = (int)(size - NLMSG_SPACE(sizeof(struct nfgenmsg)));
	const struct nlattr *attribute = (const void *)(answer + NLMSG_SPACE(sizeof(struct nfgenmsg)));

	if (left < (int)(sizeof *attribute + sizeof *count) || head->nlmsg_type != type ||
	    (attribute->nla_type & NLA_TYPE_MASK) != CTA_STATS_GLOBAL_ENTRIES)
		return 0;
	memcpy(count, attribute + 1, sizeof *count);
	*count = ntohl(*count);
	return 1;
}

/* /proc/sys/net shows the namespace of the thread that looks. No such file: nothing is tracked on this host. */
static uint32_t read_flow_count(void)
{
	char text[16] = "";
	ssize_t size;
	int file;

	file = open("/proc/sys/net/netfilter/nf_conntrack_count", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	size = read(file, text, sizeof text - 1);
	close(file);
	return size > 0 ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* Connections that something may translate. The file costs ten times what netlink does. */
static uint32_t count_flows(int fd)
{
	uint32_t count;

	if (!ask_flow_count(fd, &count))
		count = read_flow_count();
	return count > 0 && has_tables(fd) ? count : 0;
}

static void transact_one(struct transact_job *job, const char *path, struct ae_outcome *outcome)
{
	const struct batch *batch = &job->batch;
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t sent;
	int fd;

	memset(outcome, 0, sizeof *outcome);
	outcome->message = -1;
	if (job->flags & AE_NEW_NAMESPACE)
		fd = ae_unshare_and_open(NETLINK_NETFILTER, batch->length, &outcome->stage);
	else if (path)
		fd = ae_enter_and_open(path, NETLINK_NETFILTER, batch->length, &outcome->stage);
	else
		fd = ae_enter_open(job->netns, NETLINK_NETFILTER, batch->length, &outcome->stage);
	if (fd < 0) {
		outcome->error = -fd;
		return;
	}
	do
		sent = sendto(fd, batch->bytes, batch->length, 0, (struct sockaddr *)&kernel, sizeof kernel);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		refuse(outcome, errno, AE_STAGE_SEND, -1);
	else
		read_answers(fd, batch, outcome);
	if ((job->flags & AE_COUNT_FLOWS) && outcome->error == 0)
		outcome->flows = count_flows(fd);
	if (job->late)
		job->late->fds[job->late->count++] = fd;
	else
		close(fd);
}

static void *transact_all(void *argument)
{
	struct transact_job *job = argument;
	const char *path = job->paths;

	if (!path)
		transact_one(job, NULL, job->outcomes);
	else
		for (uint32_t i = 0; i < job->count; i++, path += strlen(path) + 1)
			transact_one(job, path, &job->outcomes[i]);
	return NULL;
}

int ae_transact_in(int netns, const uint8_t *batch, uint32_t length, uint32_t flags, struct ae_outcome *outcome)
{
	struct transact_job job = {.netns = netns, .count = 1, .batch = {.bytes = batch, .length = length},
				   .flags = flags, .outcomes = outcome};
	int error = read_batch(&job.batch);

	return error < 0 ? error : ae_work_apart(transact_all, &job);
}

int32_t ae_transact(const char *paths, uint32_t count, const uint8_t *batch, uint32_t length, uint32_t flags,
		    struct ae_outcome *outcomes)
{
	struct transact_job job = {
		.paths = paths, .count = count, .batch = {.bytes = batch, .length = length},
		.flags = flags, .outcomes = outcomes};
	int error = read_batch(&job.batch);
	int32_t failures = 0;

	if (error < 0)
		return error;
	if (flags & AE_CLOSE_LATE) {
		job.late = malloc(sizeof *job.late + count * sizeof job.late->fds[0]);
		if (!job.late)
			return -ENOMEM;
		*job.late = (struct late){0};
	}
	error = ae_work_apart(transact_all, &job);
	if (error < 0 && job.late) {
		close_all(job.late);
		return error;
	}
	if (job.late && job.late->count > 0)
		close_late(job.late);
	else
		free(job.late);
	if (error < 0)
		return error;
	for (uint32_t i = 0; i < count; i++)
		failures += outcomes[i].error != 0;
	return failures;
}
