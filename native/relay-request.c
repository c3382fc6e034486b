/* What a relay sends; see relay-request.h. */
#include "relay-request.h"

#include <stdio.h>
#include <string.h>

/* Magic and version, little-endian. */
#define FIXED_BYTES 8

static void put_u32(uint8_t *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *in)
{
	return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static enum relay_request_state wrong_start(const uint8_t fixed[FIXED_BYTES], char problem[RELAY_PROBLEM_ROOM])
{
	int used = snprintf(problem, RELAY_PROBLEM_ROOM, "must start with ");

	for (int i = 0; i < FIXED_BYTES; i++)
		used += snprintf(problem + used, RELAY_PROBLEM_ROOM - (size_t)used, "%02x", fixed[i]);
	return RELAY_REQUEST_WRONG;
}

static enum relay_request_state too_large(const char *what, uint32_t bytes, char problem[RELAY_PROBLEM_ROOM])
{
	snprintf(problem, RELAY_PROBLEM_ROOM, "%s of %u bytes is too large", what, bytes);
	return RELAY_REQUEST_WRONG;
}

/* NULL, or what is wrong. */
static const char *parse_variables(const char *at, const char *end, struct relay_text variables[RELAY_VARIABLES])
{
	static const char *const names[] = {"COMMAND=", "CONTAINERID=", "NETNS=", "IFNAME=", "ARGS="};
	static const char prefix[] = "CNI_";

	memset(variables, 0, RELAY_VARIABLES * sizeof *variables);
	while (at < end) {
		const char *nul = memchr(at, 0, (size_t)(end - at));

		if (!nul)
			return "environment does not end in NUL";
		/* No reading ends behind the NUL. */
		if (strncmp(at, prefix, sizeof prefix - 1) || !strchr(at, '='))
			return "environment holds something else than CNI_* variables";
		at += sizeof prefix - 1;
		for (int i = 0; i < RELAY_VARIABLES; i++) {
			size_t length = strlen(names[i]);

			if (!variables[i].bytes && !strncmp(at, names[i], length))
				variables[i] = (struct relay_text){at + length, (size_t)(nul - at) - length};
		}
		at = nul + 1;
	}
	return NULL;
}

enum relay_request_state relay_parse_request(const uint8_t *bytes, size_t length, struct relay_request_parts *parts,
					     char problem[RELAY_PROBLEM_ROOM])
{
	uint8_t fixed[FIXED_BYTES];
	uint32_t env_bytes, input_bytes;
	const char *env, *why;
	size_t whole;

	put_u32(fixed, RELAY_MAGIC);
	put_u32(fixed + 4, RELAY_FRAME_VERSION);
	if (memcmp(bytes, fixed, length < FIXED_BYTES ? length : FIXED_BYTES))
		return wrong_start(fixed, problem);
	if (length < REQUEST_HEADER_BYTES)
		return RELAY_REQUEST_PART;
	env_bytes = get_u32(bytes + 8);
	input_bytes = get_u32(bytes + 12);
	if (env_bytes > ENV_BYTES_MAX)
		return too_large("environment", env_bytes, problem);
	if (input_bytes > STDIN_BYTES_MAX)
		return too_large("stdin", input_bytes, problem);
	whole = (size_t)REQUEST_HEADER_BYTES + env_bytes + input_bytes;
	if (length < whole)
		return RELAY_REQUEST_PART;
	if (length > whole) {
		strcpy(problem, RELAY_MORE_THAN_ONE);
		return RELAY_REQUEST_WRONG;
	}
	env = (const char *)bytes + REQUEST_HEADER_BYTES;
	parts->input = (struct relay_text){env + env_bytes, input_bytes};
	why = parse_variables(env, env + env_bytes, parts->variables);
	if (!why)
		return RELAY_REQUEST_WHOLE;
	strcpy(problem, why);
	return RELAY_REQUEST_WRONG;
}
