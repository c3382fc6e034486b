/* The relay's decisions; see relay-core.h. */
#define _GNU_SOURCE
#include "relay-core.h"

#include <string.h>

#define TIMEOUT_MAX_MS 600000

enum relay_verb relay_verb_of(int argc, const char *command)
{
	static const struct {
		const char *name;
		enum relay_verb verb;
	} verbs[] = {
		{ "ADD", RELAY_ADD },	{ "DEL", RELAY_DEL },	  { "CHECK", RELAY_CHECK },
		{ "GC", RELAY_GC },	{ "STATUS", RELAY_STATUS }, { "VERSION", RELAY_VERSION },
	};

	if (argc > 1)
		return RELAY_STANDALONE;
	if (!command)
		return RELAY_ABOUT;
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (!strcmp(command, verbs[i].name))
			return verbs[i].verb;
	return RELAY_STANDALONE;
}

int relay_is_repeatable(enum relay_verb verb)
{
	return verb == RELAY_DEL || verb == RELAY_CHECK || verb == RELAY_GC || verb == RELAY_STATUS;
}

size_t relay_pack_env(char *const *env, uint8_t *out, size_t room)
{
	size_t used = 0;

	for (; *env; env++) {
		size_t bytes = strlen(*env) + 1;
		if (strncmp(*env, "CNI_", 4) || !strchr(*env, '='))
			continue;
		if (bytes > room - used)
			return SIZE_MAX;
		memcpy(out + used, *env, bytes);
		used += bytes;
	}
	return used;
}

static void put_u32(uint8_t *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *in)
{
	return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

void relay_encode_header(uint8_t out[REQUEST_HEADER_BYTES], uint32_t env_bytes, uint32_t stdin_bytes)
{
	put_u32(out, RELAY_MAGIC);
	put_u32(out + 4, RELAY_FRAME_VERSION);
	put_u32(out + 8, env_bytes);
	put_u32(out + 12, stdin_bytes);
}

enum relay_state relay_parse_answer(const uint8_t *bytes, size_t length, struct relay_answer *answer)
{
	if (length == 0)
		return RELAY_NOTHING;
	if (bytes[0] == MARKER_REFUSED)
		return length == 1 ? RELAY_REFUSED : RELAY_BROKEN;
	if (bytes[0] != MARKER_TAKEN)
		return RELAY_BROKEN;
	if (length < ANSWER_HEADER_BYTES)
		return RELAY_PENDING;

	uint32_t out_bytes = get_u32(bytes + 2);
	uint32_t err_bytes = get_u32(bytes + 6);
	if (out_bytes > STDOUT_BYTES_MAX || err_bytes > STDERR_BYTES_MAX)
		return RELAY_BROKEN;
	size_t end = (size_t)ANSWER_HEADER_BYTES + out_bytes + err_bytes;
	if (length != end)
		return length < end ? RELAY_PENDING : RELAY_BROKEN;
	answer->exit_code = bytes[1];
	answer->out = bytes + ANSWER_HEADER_BYTES;
	answer->out_bytes = out_bytes;
	answer->err = answer->out + out_bytes;
	answer->err_bytes = err_bytes;
	return RELAY_COMPLETE;
}

/* Digits up to `end`; *text is left behind them. 0: none, or out of range. */
static int64_t read_timeout(const char **text, const char *end)
{
	int64_t value = 0;

	for (; *text < end && **text >= '0' && **text <= '9'; ++*text)
		if (value <= TIMEOUT_MAX_MS)
			value = value * 10 + (**text - '0');
	return value <= TIMEOUT_MAX_MS ? value : 0;
}

int64_t relay_parse_timeout(const char *text, int64_t otherwise)
{
	if (!text)
		return otherwise;
	const char *end = text + strlen(text);
	int64_t value = read_timeout(&text, end);
	return value > 0 && text == end ? value : otherwise;
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
		at++;
	return at;
}

int64_t relay_find_timeout(const uint8_t *input, size_t bytes, int64_t otherwise)
{
	static const char key[] = "\"agent_timeout_ms\"";
	const char *at = (const char *)input, *end = at + bytes;

	while ((at = memmem(at, (size_t)(end - at), key, sizeof key - 1))) {
		at = skip_blanks(at + sizeof key - 1, end);
		if (at == end || *at != ':')
			continue;
		at = skip_blanks(at + 1, end);
		int64_t value = read_timeout(&at, end);
		if (value > 0 && (at == end || (*at != '.' && *at != 'e' && *at != 'E')))
			return value;
	}
	return otherwise;
}

static char *append(char *out, const char *text)
{
	size_t bytes = strlen(text);

	memcpy(out, text, bytes);
	return out + bytes;
}

static char *append_number(char *out, unsigned value)
{
	char digits[10];
	int count = 0;

	do
		digits[count++] = (char)('0' + value % 10);
	while ((value /= 10));
	while (count)
		*out++ = digits[--count];
	return out;
}

size_t relay_format_error(char out[512], unsigned code, const char *msg, unsigned error)
{
	char *end = append(out, "{\"cniVersion\":\"1.0.0\",\"code\":");

	end = append_number(end, code);
	end = append(end, ",\"msg\":\"");
	end = append(end, msg);
	end = append(end, "\",\"details\":\"");
	if (error) {
		end = append(end, "errno ");
		end = append_number(end, error);
	}
	end = append(end, "\"}\n");
	return (size_t)(end - out);
}

int relay_path_beside(const char *self, const char *name, char *out, size_t room)
{
	const char *slash = strrchr(self, '/');

	if (!slash)
		return -1;
	size_t directory = (size_t)(slash - self) + 1;
	size_t bytes = strlen(name) + 1;
	if (directory >= room || bytes > room - directory)
		return -1;
	memcpy(out, self, directory);
	memcpy(out + directory, name, bytes);
	return 0;
}
