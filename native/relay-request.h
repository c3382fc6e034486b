/* What a relay sends, as far as its bytes have come: one request, no system call. The frames stand in src/cni/relay-frame.ts. */
#ifndef RELAY_REQUEST_H
#define RELAY_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "relay-frame.h"

enum relay_request_state {
	RELAY_REQUEST_PART,
	RELAY_REQUEST_WHOLE,
	RELAY_REQUEST_WRONG, /* no byte that may follow makes it a request */
};

struct relay_text {
	const char *bytes; /* NULL: there is none */
	size_t length;
};

/* The variables that a call has a meaning for. */
enum relay_variable {
	RELAY_COMMAND,
	RELAY_CONTAINERID,
	RELAY_NETNS,
	RELAY_IFNAME,
	RELAY_ARGS,
	RELAY_VARIABLES, /* how many */
};

/* All texts point into the parsed bytes. Of a variable that comes twice the first counts, as with getenv(3). */
struct relay_request_parts {
	struct relay_text variables[RELAY_VARIABLES];
	struct relay_text input;
};

#define RELAY_PROBLEM_ROOM 64
#define RELAY_MORE_THAN_ONE "more than one request"

/* Reads all bytes received so far; variables are CNI_* alone. *parts is set with RELAY_REQUEST_WHOLE only, problem with
 * RELAY_REQUEST_WRONG only, which is seen as early as it can be. The lengths of a header are within their bounds where it is
 * not wrong. */
enum relay_request_state relay_parse_request(const uint8_t *bytes, size_t length, struct relay_request_parts *parts,
					     char problem[RELAY_PROBLEM_ROOM]);

#endif
