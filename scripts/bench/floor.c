/* floor ROUNDS DIRECTORY: what the kernel takes for the parts of an ADD, whoever asks. One line a sample: what, a tab,
 * microseconds. A new network namespace for each, made outside of the clock; round-robin over the parts. Needs root, a mount
 * namespace of its own, and a kernel that knows NFT_MSG_DESTROYTABLE (6.3). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DESTROY_TABLE 26 /* newer than Debian 12's headers */
#define TABLE "floor"

enum start { CREATE, DELETE_FIRST, DESTROY_FIRST };

struct batch {
	char bytes[32768];
	size_t length;
};

static int home;
static const char *pin;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static struct nlmsghdr *add(struct batch *batch, uint16_t type, uint16_t flags)
{
	return nftnl_nlmsg_build_hdr(batch->bytes + batch->length, type, NFPROTO_INET, flags, 1);
}

static void grow(struct batch *batch, const struct nlmsghdr *message)
{
	batch->length += MNL_ALIGN(message->nlmsg_len);
}

static void add_table(struct batch *batch, uint16_t type, uint16_t flags)
{
	struct nftnl_table *table = nftnl_table_alloc();
	struct nlmsghdr *message = add(batch, type, flags);

	nftnl_table_set_str(table, NFTNL_TABLE_NAME, TABLE);
	nftnl_table_nlmsg_build_payload(message, table);
	nftnl_table_free(table);
	grow(batch, message);
}

static void add_chain(struct batch *batch, uint16_t flags)
{
	struct nftnl_chain *chain = nftnl_chain_alloc();
	struct nlmsghdr *message = add(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE | flags);

	nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, TABLE);
	nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, "output");
	nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, "nat");
	nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, NF_INET_LOCAL_OUT);
	nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, -100);
	nftnl_chain_nlmsg_build_payload(message, chain);
	nftnl_chain_free(chain);
	grow(batch, message);
}

static struct nftnl_expr *add_expression(struct nftnl_rule *rule, const char *name)
{
	struct nftnl_expr *expression = nftnl_expr_alloc(name);

	nftnl_rule_add_expr(rule, expression);
	return expression;
}

static void add_compare(struct nftnl_rule *rule, const void *data, uint32_t length)
{
	struct nftnl_expr *compare = add_expression(rule, "cmp");

	nftnl_expr_set_u32(compare, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
	nftnl_expr_set_u32(compare, NFTNL_EXPR_CMP_OP, NFT_CMP_EQ);
	nftnl_expr_set(compare, NFTNL_EXPR_CMP_DATA, data, length);
}

/* tcp dport PORT redirect to :18001 */
static void add_rule(struct batch *batch, uint16_t port, uint16_t flags)
{
	struct nftnl_rule *rule = nftnl_rule_alloc();
	struct nlmsghdr *message = add(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
	uint16_t wanted = htons(port), target = htons(18001);
	uint8_t tcp = IPPROTO_TCP;
	struct nftnl_expr *each;

	nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, TABLE);
	nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, "output");
	each = add_expression(rule, "meta");
	nftnl_expr_set_u32(each, NFTNL_EXPR_META_KEY, NFT_META_L4PROTO);
	nftnl_expr_set_u32(each, NFTNL_EXPR_META_DREG, NFT_REG_1);
	add_compare(rule, &tcp, sizeof tcp);
	each = add_expression(rule, "payload");
	nftnl_expr_set_u32(each, NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
	nftnl_expr_set_u32(each, NFTNL_EXPR_PAYLOAD_OFFSET, 2);
	nftnl_expr_set_u32(each, NFTNL_EXPR_PAYLOAD_LEN, 2);
	nftnl_expr_set_u32(each, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
	add_compare(rule, &wanted, sizeof wanted);
	each = add_expression(rule, "immediate");
	nftnl_expr_set_u32(each, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
	nftnl_expr_set(each, NFTNL_EXPR_IMM_DATA, &target, sizeof target);
	each = add_expression(rule, "redir");
	nftnl_expr_set_u32(each, NFTNL_EXPR_REDIR_REG_PROTO_MIN, NFT_REG_1);
	nftnl_rule_nlmsg_build_payload(message, rule);
	nftnl_rule_free(rule);
	grow(batch, message);
}

/* The last message before the end is the one that is acknowledged. Kept for good. */
static struct batch *build(int rules, enum start start)
{
	struct batch *batch = calloc(1, sizeof *batch);

	nftnl_batch_begin(batch->bytes, 0);
	batch->length = ((struct nlmsghdr *)batch->bytes)->nlmsg_len;
	if (start == DESTROY_FIRST)
		add_table(batch, DESTROY_TABLE, 0);
	add_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	if (start == DELETE_FIRST) {
		add_table(batch, NFT_MSG_DELTABLE, 0);
		add_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	}
	add_chain(batch, 0);
	for (int i = 0; i < rules; i++)
		add_rule(batch, (uint16_t)(18081 + i), i + 1 == rules ? NLM_F_ACK : 0);
	grow(batch, nftnl_batch_end(batch->bytes + batch->length, 2));
	return batch;
}

static int make_namespace(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		die("unshare");
	fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(home, CLONE_NEWNET) < 0)
		die("namespace");
	return fd;
}

static int open_socket(int namespace)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK};
	int fd;

	if (setns(namespace, CLONE_NEWNET) < 0)
		die("setns");
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || setns(home, CLONE_NEWNET) < 0)
		die("socket");
	return fd;
}

static void transact(int fd, const struct batch *batch)
{
	char answer[8192];
	struct nlmsghdr *message = (struct nlmsghdr *)answer;

	if (send(fd, batch->bytes, batch->length, 0) != (ssize_t)batch->length)
		die("send");
	if (recv(fd, answer, sizeof answer, 0) < 0 || message->nlmsg_type != NLMSG_ERROR)
		die("recv");
	if (((struct nlmsgerr *)mnl_nlmsg_get_payload(message))->error != 0) {
		fprintf(stderr, "floor: the kernel refused a batch: %d\n",
			((struct nlmsgerr *)mnl_nlmsg_get_payload(message))->error);
		exit(1);
	}
}

static void bind_pin(int namespace)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", namespace);
	if (mount(path, pin, NULL, MS_BIND, NULL) < 0)
		die("pin");
}

static void remove_pin(void)
{
	if (umount2(pin, MNT_DETACH) < 0)
		die("umount");
}

/* In a namespace of its own: the batch, and how long the socket takes to close after it. */
static void measure_batch(const char *name, const struct batch *batch)
{
	int namespace = make_namespace(), fd = open_socket(namespace);
	double start = now_us(), sent;

	transact(fd, batch);
	sent = now_us();
	close(fd);
	printf("batch of %s\t%.1f\nclose after %s\t%.1f\n", name, sent - start, name, now_us() - sent);
	close(namespace);
}

static void measure_round(const struct batch *two, const struct batch *eight, const struct batch *deleting,
			  const struct batch *destroying)
{
	int namespace = make_namespace(), fd;
	double start = now_us();

	fd = open_socket(namespace);
	printf("enter a namespace and open a socket\t%.1f\n", now_us() - start);
	close(fd);
	start = now_us();
	bind_pin(namespace);
	printf("pin\t%.1f\n", now_us() - start);
	remove_pin();
	close(namespace);
	measure_batch("2 rules", two);
	measure_batch("8 rules", eight);
	measure_batch("add, delete, add, 2 rules", deleting);
	measure_batch("destroy, add, 2 rules", destroying);

	namespace = make_namespace();
	start = now_us();
	fd = open_socket(namespace);
	transact(fd, destroying);
	close(fd);
	bind_pin(namespace);
	printf("all of an ADD: enter, destroy, add, 2 rules, close, pin\t%.1f\n", now_us() - start);
	remove_pin();
	close(namespace);
}

int main(int argc, char **argv)
{
	char path[256];
	const struct batch *two = build(2, CREATE), *eight = build(8, CREATE);
	const struct batch *deleting = build(2, DELETE_FIRST), *destroying = build(2, DESTROY_FIRST);
	int rounds, file;

	if (argc != 3)
		return 2;
	rounds = atoi(argv[1]);
	snprintf(path, sizeof path, "%s/pin", argv[2]);
	pin = path;
	home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	file = open(pin, O_CREAT | O_RDONLY | O_CLOEXEC, 0600);
	if (home < 0 || file < 0)
		die(pin);
	close(file);
	for (int i = 0; i < rounds; i++)
		measure_round(two, eight, deleting, destroying);
	unlink(pin);
	return 0;
}
