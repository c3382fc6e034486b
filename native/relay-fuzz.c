/* Fuzz target of what the relay parses (answers, a number of the configuration) and of what is parsed of it (requests), in
 * libFuzzer's form, with a small driver of its own for compilers that have none: `relay-fuzz [rounds [seed]]`. Checks what the
 * parsers promise; the sanitizers check memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay-core.h"
#include "relay-request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "relay-fuzz: %s\n", what);
	abort();
}

static enum relay_request_state check_request(const uint8_t *bytes, size_t size)
{
	struct relay_request_parts parts = { 0 };
	enum relay_request_state state = RELAY_REQUEST_PART;

	/* However the bytes are cut: what is final is followed by nothing but wrong, of which two are enough. */
	for (size_t cut = 0, wrong = 0; cut <= size; cut = wrong < 2 || cut == size ? cut + 1 : size) {
		char problem[RELAY_PROBLEM_ROOM] = "";
		int was_final = state != RELAY_REQUEST_PART;

		state = relay_parse_request(bytes, cut, &parts, problem);
		wrong += state == RELAY_REQUEST_WRONG;
		require(!was_final || state == RELAY_REQUEST_WRONG, "something after a request's end");
		require((state == RELAY_REQUEST_WRONG) == (problem[0] != 0), "no word about what is wrong");
		require(memchr(problem, 0, sizeof problem) != NULL, "a word without an end");
	}
	if (state == RELAY_REQUEST_WHOLE) {
		const char *start = (const char *)bytes + REQUEST_HEADER_BYTES, *end = (const char *)bytes + size;

		require(parts.input.bytes >= start, "stdin does not follow the header");
		require(parts.input.bytes + parts.input.length == end, "the request does not end where the bytes end");
		for (int i = 0; i < RELAY_VARIABLES; i++) {
			const struct relay_text *text = &parts.variables[i];

			if (!text->bytes)
				continue;
			require(text->bytes > start && text->bytes[-1] == '=', "a variable without a name");
			require(text->bytes + text->length < parts.input.bytes, "a variable beyond the variables");
			require(strlen(text->bytes) == text->length, "a variable that ends elsewhere");
		}
	}
	/* The top bytes of lengths beyond every bound: no reason to wait for more. */
	if (size >= REQUEST_HEADER_BYTES && (bytes[10] > 1 || bytes[11] || bytes[15] > 1))
		require(state == RELAY_REQUEST_WRONG, "a length above its bound");
	return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* An allocation of exactly this size: reading past the end is seen. */
	uint8_t *bytes = malloc(size ? size : 1);
	require(bytes != NULL, "no memory");
	memcpy(bytes, data, size);

	struct relay_answer answer = { 0 };
	enum relay_state state = relay_parse_answer(bytes, size, &answer);
	if (state == RELAY_COMPLETE) {
		require(answer.out == bytes + ANSWER_HEADER_BYTES, "stdout does not follow the header");
		require(answer.err == answer.out + answer.out_bytes, "stderr does not follow stdout");
		require(answer.err + answer.err_bytes == bytes + size, "the answer does not end where the bytes end");
		require(answer.exit_code == bytes[1], "the exit code is another");
	}
	/* The top bytes of lengths beyond every bound: no reason to wait for more. */
	if (size >= ANSWER_HEADER_BYTES && bytes[0] == MARKER_TAKEN && (bytes[5] > 1 || bytes[9]))
		require(state == RELAY_BROKEN, "a length above its bound");
	/* However the bytes are cut: what is final is followed by nothing but broken, and only no byte is nothing. */
	int final = 0;
	for (size_t cut = 0; cut <= size; cut++) {
		struct relay_answer part = { 0 };
		enum relay_state early = relay_parse_answer(bytes, cut, &part);
		require(!final || early == RELAY_BROKEN, "something after the end");
		require((cut == 0) == (early == RELAY_NOTHING), "only no byte is nothing");
		final = early != RELAY_NOTHING && early != RELAY_PENDING;
	}
	int64_t timeout = relay_find_timeout(bytes, size, -1);
	require(timeout == -1 || (timeout > 0 && timeout <= 600000), "a time-out out of its bounds");
	check_request(bytes, size);
	free(bytes);
	return 0;
}

#ifndef RELAY_FUZZ_NO_MAIN
static uint64_t state64;

static uint32_t next_random(void)
{
	state64 = state64 * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state64 >> 33);
}

/* Mostly nearly right answers: a random one would end at its first byte. */
static size_t make_answer(uint8_t *out, size_t room)
{
	static const char key[] = "\"agent_timeout_ms\" : 12345678";
	uint32_t out_bytes = next_random() % 200, err_bytes = next_random() % 50;
	size_t size = ANSWER_HEADER_BYTES + out_bytes + err_bytes;

	require(size <= room, "room");
	for (size_t i = 0; i < size; i++)
		out[i] = (uint8_t)next_random();
	out[0] = next_random() % 8 ? MARKER_TAKEN : (uint8_t)next_random();
	for (int i = 0; i < 4; i++) {
		out[2 + i] = (uint8_t)(out_bytes >> (8 * i));
		out[6 + i] = (uint8_t)(err_bytes >> (8 * i));
	}
	if (next_random() % 4 == 0 && out_bytes >= sizeof key)
		memcpy(out + size - sizeof key + 1, key, sizeof key - 1 - next_random() % 9);
	for (uint32_t flips = next_random() % 3; flips; flips--)
		out[next_random() % 16 % size] = (uint8_t)next_random();
	if (next_random() % 3 == 0)
		size = next_random() % (size + 1);
	return size;
}

/* Known and unknown variables, twice perhaps, and some that are none. */
static uint32_t make_env(uint8_t *out)
{
	static const char *const names[] = {"CNI_COMMAND=",  "CNI_ARGS=",  "CNI_NETNS=",   "CNI_IFNAME=", "CNI_CONTAINERID=",
					    "CNI_COMMANDX=", "CNI_PATH==", "CNI_COMMAND", "PATH=",	  ""};
	uint32_t used = 0;

	for (uint32_t count = next_random() % 5; count; count--) {
		const char *name = names[next_random() % (next_random() % 8 ? 7 : 10)];

		memcpy(out + used, name, strlen(name));
		used += (uint32_t)strlen(name);
		for (uint32_t length = next_random() % 9; length; length--)
			out[used++] = (uint8_t)(1 + next_random() % 255);
		if (next_random() % 32)
			out[used++] = 0;
	}
	return used;
}

/* The same for requests. */
static size_t make_request(uint8_t *out, size_t room)
{
	uint32_t env_bytes = make_env(out + REQUEST_HEADER_BYTES), input_bytes = next_random() % 200;
	size_t size = REQUEST_HEADER_BYTES + env_bytes + input_bytes;

	require(size < room, "room");
	relay_encode_header(out, env_bytes, input_bytes);
	for (size_t i = REQUEST_HEADER_BYTES + env_bytes; i < size; i++)
		out[i] = (uint8_t)next_random();
	if (next_random() % 4 == 0)
		out[next_random() % REQUEST_HEADER_BYTES] = (uint8_t)next_random();
	if (next_random() % 4 == 0)
		size = next_random() % (size + 1);
	return next_random() % 8 ? size : size + 1;
}

int main(int argc, char **argv)
{
	uint8_t bytes[512];
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	unsigned long complete = 0, whole = 0;

	state64 = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	for (unsigned long round = 0; round < rounds; round++) {
		struct relay_answer answer;
		size_t size = make_answer(bytes, sizeof bytes);
		LLVMFuzzerTestOneInput(bytes, size);
		complete += relay_parse_answer(bytes, size, &answer) == RELAY_COMPLETE;
		size = make_request(bytes, sizeof bytes);
		LLVMFuzzerTestOneInput(bytes, size);
		whole += check_request(bytes, size) == RELAY_REQUEST_WHOLE;
	}
	printf("%lu rounds, %lu complete answers, %lu whole requests\n", rounds, complete, whole);
	return 0;
}
#endif
