/* aether-cni-relay: what a container runtime starts as `aether-cni`. Hands the call to the agent and prints its answer byte
 * for byte; answers VERSION itself; becomes the standalone program where the agent is away and nothing was half done.
 * Knows nothing of pods and rules, and of the configuration one number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cni-versions.h"
#include "relay-core.h"
#include "relay-io.h"

#define STANDALONE "aether-cni-standalone"
#define SOCKET "/run/aether/relay.sock"
/* How long the agent may take is said by the network configuration; this is for what comes on top: other calls before this
 * one, and undoing. An agent that within its time neither reads the call nor
 * works hangs. */
#define AGENT_MS 5000
#define SPARE_MS 10000
/* DEL and STATUS: a hanging agent holds up no pod's end and no look at the node. One that is only slow to take the call has
 * not acted, and the standalone program can do it in its place. But that costs the node fifty times as much: an agent that
 * is busy, as on a node where many pods end at once, gets more time. */
#define HURRIED_READ_MS 1000
#define HURRIED_TAKE_MS 4000
#define STDIN_IDLE_MS 5000
#define STDIN_TOTAL_MS 30000

/* Codes of the CNI specification. */
#define CODE_ENVIRONMENT 4
#define CODE_IO 5
#define CODE_DECODE 6
#define CODE_TRY_AGAIN 11
#define CODE_UNAVAILABLE 50

/* Pages of these exist only where something was written. */
static uint8_t packed_env[ENV_BYTES_MAX];
static uint8_t input[STDIN_BYTES_MAX + 1];
static uint8_t answer_bytes[RELAY_ANSWER_ROOM];

static void warn(const char *text)
{
	relay_write(STDERR_FILENO, text, strlen(text));
}

static int fail(unsigned code, const char *msg, int error)
{
	char object[512];

	relay_write(STDOUT_FILENO, object, relay_format_error(object, code, msg, (unsigned)error));
	return 1;
}

static int print(const struct relay_answer *answer)
{
	relay_write(STDERR_FILENO, answer->err, answer->err_bytes);
	int error = relay_write(STDOUT_FILENO, answer->out, answer->out_bytes);
	/* An answer that nobody got is no success. */
	return error && !answer->exit_code ? 1 : answer->exit_code;
}

static int fail_without_standalone(enum relay_verb verb, int error)
{
	if (verb == RELAY_DEL) {
		/* DEL always ends well; at its start the agent removes what has no namespace any more. */
		warn("aether-cni: DEL: no agent answers and " STANDALONE " cannot be started; nothing was removed\n");
		return 0;
	}
	if (verb == RELAY_STATUS)
		return fail(CODE_UNAVAILABLE, "the node agent does not answer, and " STANDALONE " cannot be started", error);
	return fail(CODE_TRY_AGAIN, "the node agent does not answer, and " STANDALONE " cannot be started; try again later", error);
}

/* DEL works with whatever it is given: too many variables are for the standalone program to read. */
static int delete_without_agent(char **argv, char **env)
{
	return fail_without_standalone(RELAY_DEL, relay_exec_beside(STANDALONE, argv, env, NULL, 0));
}

static int fail_stdin(int error)
{
	if (error == E2BIG)
		return fail(CODE_DECODE, "reading the network configuration: it is longer than 16 MiB", 0);
	if (error == ETIMEDOUT)
		return fail(CODE_IO, "reading the network configuration: stdin stays open and brings nothing", 0);
	return fail(CODE_IO, "reading the network configuration: stdin cannot be read", error);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int relay(enum relay_verb verb, char **argv, char **env)
{
	const char *path = getenv("AETHER_RELAY_SOCKET");
	struct relay_answer answer;
	size_t bytes = 0;
	int error;

	size_t env_bytes = relay_pack_env(env, packed_env, sizeof packed_env);
	if (env_bytes == SIZE_MAX && verb == RELAY_DEL)
		return delete_without_agent(argv, env);
	if (env_bytes == SIZE_MAX)
		return fail(CODE_ENVIRONMENT, "reading the CNI environment: it is longer than 64 KiB", 0);
	error = relay_read_stdin(input, STDIN_BYTES_MAX, &bytes, STDIN_IDLE_MS, STDIN_TOTAL_MS);
	if (error && verb != RELAY_DEL)
		return fail_stdin(error);
	if (error)
		warn("aether-cni: DEL: stdin did not end; going on with what came\n");

	struct relay_request request = {
		.env = packed_env,
		.env_bytes = (uint32_t)env_bytes,
		.input = input,
		.input_bytes = (uint32_t)bytes,
	};
	int64_t agent = relay_find_timeout(input, bytes, AGENT_MS);
	int64_t patience = relay_parse_timeout(getenv("AETHER_RELAY_TIMEOUT_MS"), agent + SPARE_MS);
	int hurried = verb == RELAY_DEL || verb == RELAY_STATUS;
	int64_t now = relay_now_ms();
	struct relay_deadlines deadlines = {
		.read_ms = now + least(hurried ? HURRIED_READ_MS : agent, patience),
		.take_ms = now + least(hurried ? HURRIED_TAKE_MS : patience, patience),
		.answer_ms = now + patience,
	};
	enum relay_state state =
		relay_call(path && *path ? path : SOCKET, &request, &deadlines, answer_bytes, &answer, &error);
	if (state == RELAY_COMPLETE)
		return print(&answer);
	/* The runtime answers an ADD that failed with a DEL, which undoes whatever was done. */
	if ((state == RELAY_PENDING || state == RELAY_BROKEN) && !relay_is_repeatable(verb))
		return fail(CODE_TRY_AGAIN,
			    error == ETIMEDOUT ? "the node agent took the call and did not answer in time; try again later" :
						 "the node agent ended while it worked on the call; try again later",
			    error);
	error = relay_exec_beside(STANDALONE, argv, env, input, bytes);
	return fail_without_standalone(verb, error);
}

int main(int argc, char **argv, char **env)
{
	const char *command = getenv("CNI_COMMAND");
	enum relay_verb verb = relay_verb_of(argc, command && *command ? command : NULL);
	int error;

	switch (verb) {
	case RELAY_ABOUT:
		warn(CNI_ABOUT);
		return 0;
	case RELAY_VERSION:
		error = relay_write(STDOUT_FILENO, CNI_VERSION_ANSWER, sizeof CNI_VERSION_ANSWER - 1);
		return error ? 1 : 0;
	case RELAY_STANDALONE:
		error = relay_exec_beside(STANDALONE, argv, env, NULL, 0);
		warn("aether-cni: cannot start " STANDALONE " from beside this program\n");
		if (command && *command)
			return fail(CODE_ENVIRONMENT, "CNI_COMMAND is none that is known, and " STANDALONE " cannot be started", error);
		return 2;
	default:
		return relay(verb, argv, env);
	}
}
