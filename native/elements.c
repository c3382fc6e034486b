/* Set elements by the thousand: libnftnl builds each, in one call for all of them. */
#include "libaether.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/common.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

/* An element's attributes: list item, key, value, flags, each with its header. A message's: header, names, list. */
#define ELEMENT_OVERHEAD 24u
#define MESSAGE_OVERHEAD 1024u

static struct nftnl_set *new_set(const char *table, const char *name)
{
	struct nftnl_set *set = nftnl_set_alloc();

	if (set && (nftnl_set_set_str(set, NFTNL_SET_TABLE, table) < 0 || nftnl_set_set_str(set, NFTNL_SET_NAME, name) < 0)) {
		nftnl_set_free(set);
		return NULL;
	}
	return set;
}

/* The set takes the element. */
static int add_element(struct nftnl_set *set, const uint8_t *key, uint32_t key_length, int is_end)
{
	struct nftnl_set_elem *element = nftnl_set_elem_alloc();

	if (!element)
		return -ENOMEM;
	if (nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, key, key_length) < 0) {
		nftnl_set_elem_free(element);
		return -ENOMEM;
	}
	if (is_end)
		nftnl_set_elem_set_u32(element, NFTNL_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
	nftnl_set_elem_add(set, element);
	return 0;
}

int64_t ae_encode_elements(const char *table, const char *set_name, uint32_t type, uint32_t nlmsg_flags, uint32_t seq,
			   const uint8_t *keys, uint32_t key_length, const uint8_t *ends, uint32_t count,
			   uint32_t per_message, uint8_t *out, uint32_t room)
{
	uint32_t padded = (key_length + 3u) & ~3u, used = 0, done = 0;

	if (per_message == 0 || key_length == 0)
		return -EINVAL;
	while (done < count) {
		uint32_t n = count - done < per_message ? count - done : per_message;
		struct nftnl_set *set;
		struct nlmsghdr *message;

		if ((uint64_t)room - used < MESSAGE_OVERHEAD + (uint64_t)n * (ELEMENT_OVERHEAD + padded))
			return -ENOBUFS;
		set = new_set(table, set_name);
		if (!set)
			return -ENOMEM;
		for (uint32_t i = done; i < done + n; i++)
			if (add_element(set, keys + (size_t)i * key_length, key_length, ends[i]) < 0) {
				nftnl_set_free(set);
				return -ENOMEM;
			}
		message = nftnl_nlmsg_build_hdr((char *)out + used, (uint16_t)type, NFPROTO_INET, (uint16_t)nlmsg_flags, seq++);
		nftnl_set_elems_nlmsg_build_payload(message, set);
		nftnl_set_free(set); /* and its elements */
		used += message->nlmsg_len;
		done += n;
	}
	return used;
}
