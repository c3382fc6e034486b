/* Prints, as one JSON object, every constant and structure layout that src/adapters/kernel/abi.ts states, from the real
 * headers. A test compares the two. Constants newer than these headers are not here: kernel tests prove those. */
#include <errno.h>
#include <linux/magic.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdio.h>

#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>

#include "libaether.h"

static const char *separator = "{";

static void print(const char *name, long value)
{
	printf("%s\n  \"%s\": %ld", separator, name, value);
	separator = ",";
}

#define P(name) print(#name, (long)(name))
#define SIZE(what, type) print("SIZEOF_" what, (long)sizeof(type))
#define AT(what, type, field) print("OFFSET_" what, (long)offsetof(type, field))

static void print_messages(void)
{
	P(NFNL_SUBSYS_NFTABLES);
	P(NFT_MSG_NEWTABLE);
	P(NFT_MSG_GETTABLE);
	P(NFT_MSG_DELTABLE);
	P(NFT_MSG_NEWCHAIN);
	P(NFT_MSG_GETCHAIN);
	P(NFT_MSG_NEWRULE);
	P(NFT_MSG_GETRULE);
	P(NFT_MSG_NEWSET);
	P(NFT_MSG_GETSET);
	P(NFT_MSG_NEWSETELEM);
	P(NFT_MSG_GETSETELEM);
	P(NFT_MSG_DELSETELEM);
	P(NFT_MSG_NEWGEN);
	P(NFT_MSG_GETGEN);
	P(NLM_F_REQUEST);
	P(NLM_F_ACK);
	P(NLM_F_DUMP);
	P(NLM_F_EXCL);
	P(NLM_F_CREATE);
	P(NLM_F_APPEND);
	P(NLMSG_NOOP);
	P(NLMSG_ERROR);
	P(NLMSG_DONE);
	P(NFPROTO_INET);
	P(NFPROTO_IPV4);
	P(NFPROTO_IPV6);
	P(NF_INET_LOCAL_OUT);
	P(NF_ACCEPT);
}

static void print_objects(void)
{
	P(NFTNL_TABLE_NAME);
	P(NFTNL_CHAIN_NAME);
	P(NFTNL_CHAIN_TABLE);
	P(NFTNL_CHAIN_TYPE);
	P(NFTNL_CHAIN_HOOKNUM);
	P(NFTNL_CHAIN_PRIO);
	P(NFTNL_CHAIN_POLICY);
	P(NFTNL_RULE_TABLE);
	P(NFTNL_RULE_CHAIN);
	P(NFTNL_SET_TABLE);
	P(NFTNL_SET_NAME);
	P(NFTNL_SET_FLAGS);
	P(NFTNL_SET_KEY_TYPE);
	P(NFTNL_SET_KEY_LEN);
	P(NFTNL_SET_ID);
	P(NFT_SET_INTERVAL);
	P(NFT_SET_ELEM_INTERVAL_END);
}

static void print_expressions(void)
{
	P(NFTNL_EXPR_META_KEY);
	P(NFTNL_EXPR_META_DREG);
	P(NFTNL_EXPR_PAYLOAD_DREG);
	P(NFTNL_EXPR_PAYLOAD_BASE);
	P(NFTNL_EXPR_PAYLOAD_OFFSET);
	P(NFTNL_EXPR_PAYLOAD_LEN);
	P(NFTNL_EXPR_CMP_SREG);
	P(NFTNL_EXPR_CMP_OP);
	P(NFTNL_EXPR_CMP_DATA);
	P(NFTNL_EXPR_BITWISE_SREG);
	P(NFTNL_EXPR_BITWISE_DREG);
	P(NFTNL_EXPR_BITWISE_LEN);
	P(NFTNL_EXPR_BITWISE_MASK);
	P(NFTNL_EXPR_BITWISE_XOR);
	P(NFTNL_EXPR_LOOKUP_SREG);
	P(NFTNL_EXPR_LOOKUP_SET);
	P(NFTNL_EXPR_IMM_DREG);
	P(NFTNL_EXPR_IMM_DATA);
	P(NFTNL_EXPR_IMM_VERDICT);
	P(NFTNL_EXPR_REDIR_REG_PROTO_MIN);
	P(NFTNL_EXPR_REDIR_FLAGS);
	P(NFTNL_EXPR_NAT_TYPE);
	P(NFTNL_EXPR_NAT_FAMILY);
	P(NFTNL_EXPR_NAT_REG_ADDR_MIN);
	P(NFTNL_EXPR_NAT_REG_PROTO_MIN);
	P(NFTNL_EXPR_NAT_FLAGS);
	P(NF_NAT_RANGE_PROTO_SPECIFIED);
	P(NFTNL_EXPR_REJECT_TYPE);
	P(NFTNL_EXPR_REJECT_CODE);
	P(NFT_REG_VERDICT);
	P(NFT_REG_1);
	P(NFT_REG_2);
	P(NFT_REG32_01);
	P(NFT_META_MARK);
	P(NFT_META_NFPROTO);
	P(NFT_META_L4PROTO);
	P(NFT_PAYLOAD_NETWORK_HEADER);
	P(NFT_PAYLOAD_TRANSPORT_HEADER);
	P(NFT_CMP_EQ);
	P(NFT_CMP_LTE);
	P(NFT_CMP_GTE);
	P(NFT_NAT_DNAT);
	P(NFT_REJECT_TCP_RST);
}

static void print_attributes(void)
{
	P(NFTA_TABLE_NAME);
	P(NFTA_TABLE_FLAGS);
	P(NFT_TABLE_F_DORMANT);
	P(NFTA_CHAIN_TABLE);
	P(NFTA_CHAIN_NAME);
	P(NFTA_CHAIN_HOOK);
	P(NFTA_CHAIN_POLICY);
	P(NFTA_CHAIN_TYPE);
	P(NFTA_HOOK_HOOKNUM);
	P(NFTA_HOOK_PRIORITY);
	P(NFTA_RULE_TABLE);
	P(NFTA_RULE_CHAIN);
	P(NFTA_RULE_EXPRESSIONS);
	P(NFTA_SET_TABLE);
	P(NFTA_SET_NAME);
	P(NFTA_SET_FLAGS);
	P(NFTA_SET_KEY_TYPE);
	P(NFTA_SET_KEY_LEN);
	P(NFTA_SET_ELEM_LIST_TABLE);
	P(NFTA_SET_ELEM_LIST_SET);
	P(NFTA_SET_ELEM_LIST_ELEMENTS);
	P(NFTA_SET_ELEM_KEY);
	P(NFTA_SET_ELEM_FLAGS);
	P(NFTA_DATA_VALUE);
	P(NFTA_DATA_VERDICT);
	P(NFTA_VERDICT_CODE);
	P(NFTA_EXPR_NAME);
	P(NFTA_EXPR_DATA);
	P(NFTA_META_DREG);
	P(NFTA_META_KEY);
	P(NFTA_PAYLOAD_DREG);
	P(NFTA_PAYLOAD_BASE);
	P(NFTA_PAYLOAD_OFFSET);
	P(NFTA_PAYLOAD_LEN);
	P(NFTA_CMP_SREG);
	P(NFTA_CMP_OP);
	P(NFTA_CMP_DATA);
	P(NFTA_BITWISE_SREG);
	P(NFTA_BITWISE_DREG);
	P(NFTA_BITWISE_OP);
	P(NFTA_BITWISE_MASK);
	P(NFTA_BITWISE_XOR);
	P(NFTA_LOOKUP_SET);
	P(NFTA_LOOKUP_SREG);
	P(NFTA_LOOKUP_DREG);
	P(NFTA_LOOKUP_FLAGS);
	P(NFTA_IMMEDIATE_DREG);
	P(NFTA_IMMEDIATE_DATA);
	P(NFTA_REDIR_REG_PROTO_MIN);
	P(NFTA_REDIR_REG_PROTO_MAX);
	P(NFTA_REDIR_FLAGS);
	P(NFTA_NAT_TYPE);
	P(NFTA_NAT_FAMILY);
	P(NFTA_NAT_REG_ADDR_MIN);
	P(NFTA_NAT_REG_ADDR_MAX);
	P(NFTA_NAT_REG_PROTO_MIN);
	P(NFTA_NAT_REG_PROTO_MAX);
	P(NFTA_NAT_FLAGS);
	P(NF_NAT_RANGE_MAP_IPS);
	P(NFTA_REJECT_TYPE);
	P(NFTA_REJECT_ICMP_CODE);
	P(NFTA_GEN_ID);
	P(NF_DROP);
}

static void print_flows(void)
{
	P(NETLINK_ROUTE);
	P(NETLINK_NETFILTER);
	P(NFNL_SUBSYS_CTNETLINK);
	P(IPCTNL_MSG_CT_NEW);
	P(IPCTNL_MSG_CT_GET);
	P(IPCTNL_MSG_CT_DELETE);
	P(CTA_TUPLE_ORIG);
	P(CTA_TUPLE_REPLY);
	P(CTA_STATUS);
	P(CTA_PROTOINFO);
	P(CTA_ID);
	P(CTA_ZONE);
	P(CTA_TUPLE_IP);
	P(CTA_TUPLE_PROTO);
	P(CTA_IP_V4_SRC);
	P(CTA_IP_V4_DST);
	P(CTA_IP_V6_SRC);
	P(CTA_IP_V6_DST);
	P(CTA_PROTO_NUM);
	P(CTA_PROTO_SRC_PORT);
	P(CTA_PROTO_DST_PORT);
	P(CTA_PROTOINFO_TCP);
	P(CTA_PROTOINFO_TCP_STATE);
	P(TCP_CONNTRACK_SYN_SENT);
	P(TCP_CONNTRACK_TIME_WAIT);
	P(TCP_CONNTRACK_CLOSE);
	P(TCP_CONNTRACK_SYN_SENT2);
	P(IPS_DST_NAT);
	P(RTM_NEWADDR);
	P(RTM_GETADDR);
	P(IFA_ADDRESS);
	P(IFA_LOCAL);
	SIZE("IFADDRMSG", struct ifaddrmsg);
}

static void print_layouts(void)
{
	SIZE("NLMSGHDR", struct nlmsghdr);
	SIZE("NFGENMSG", struct nfgenmsg);
	AT("NLMSGHDR_TYPE", struct nlmsghdr, nlmsg_type);
	AT("NLMSGHDR_FLAGS", struct nlmsghdr, nlmsg_flags);
	AT("NLMSGHDR_SEQ", struct nlmsghdr, nlmsg_seq);
	SIZE("AE_OUTCOME", struct ae_outcome);
	AT("AE_OUTCOME_STAGE", struct ae_outcome, stage);
	AT("AE_OUTCOME_MESSAGE", struct ae_outcome, message);
	AT("AE_OUTCOME_FLOWS", struct ae_outcome, flows);
	SIZE("AE_ENTERED", struct ae_entered);
	AT("AE_ENTERED_STAGE", struct ae_entered, stage);
	AT("AE_ENTERED_HAS_RULES", struct ae_entered, has_rules);
	AT("AE_ENTERED_FLOWS", struct ae_entered, flows);
	SIZE("AE_DUMP", struct ae_dump);
	AT("AE_DUMP_LENGTH", struct ae_dump, length);
	AT("AE_DUMP_STAGE", struct ae_dump, stage);
	AT("AE_DUMP_INTERRUPTED", struct ae_dump, interrupted);
	P(AE_CLOSE_LATE);
	P(AE_COUNT_FLOWS);
	P(AE_NEW_NAMESPACE);
	P(AE_SHARING_SHARED);
	P(AE_SHARING_MADE);
	P(AE_SHARING_SLAVE);
	P(AE_STAGE_NONE);
	P(AE_STAGE_OPEN);
	P(AE_STAGE_NOT_NETNS);
	P(AE_STAGE_FORBIDDEN);
	P(AE_STAGE_ENTER);
	P(AE_STAGE_SOCKET);
	P(AE_STAGE_SEND);
	P(AE_STAGE_RECEIVE);
	P(AE_STAGE_KERNEL);
	P(AE_STAGE_PEER);
	P(AE_STAGE_NOTE);
	P(AE_STAGE_PIN);
}

int main(void)
{
	print_messages();
	print_objects();
	print_expressions();
	print_attributes();
	print_flows();
	print_layouts();
	printf("\n}\n");
	return 0;
}
