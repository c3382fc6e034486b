/* libaether as an addon of Node: the functions of libaether.h by number, called at once or on a thread of their own. What each
 * takes and gives stands in calls[] here and in src/adapters/kernel/symbols.ts; a test compares the two.
 *
 * Arguments that are bytes are used in place and have to stay: the JavaScript side holds them until it has the result. Texts
 * are copied. The end of a call off the event loop (workers.c) is told to it through one threadsafe function. */
#define _GNU_SOURCE
#include "internal.h"
#include "relay-addon.h"
#include "workers.h"

#include <errno.h>
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 12

/* Kinds of arguments: t text, b bytes, i int32, u uint32, l int64. */
union argument {
	const char *text;
	uint8_t *bytes;
	int32_t i;
	uint32_t u;
	int64_t l;
};

struct known_call {
	const char *name;
	const char *takes;
	int64_t (*run)(const union argument *a);
};

static int64_t netns_check(const union argument *a) { return ae_netns_check(a[0].text, (int32_t *)a[1].bytes); }
static int64_t netns_identify(const union argument *a)
{
	return ae_netns_identify(a[0].text, (uint64_t *)a[1].bytes, (int32_t *)a[2].bytes);
}
static int64_t transact(const union argument *a)
{
	return ae_transact((const char *)a[0].bytes, a[1].u, a[2].bytes, a[3].u, a[4].u, (struct ae_outcome *)a[5].bytes);
}
static int64_t dump_collect(const union argument *a)
{
	return ae_dump_collect(a[0].text, a[1].u, a[2].bytes, a[3].u, (struct ae_dump *)a[4].bytes);
}
static int64_t dump_take(const union argument *a) { return ae_dump_take(a[0].l, a[1].bytes, a[2].l); }
static int64_t pin(const union argument *a) { return ae_pin(a[0].text, a[1].text, a[2].text, (int32_t *)a[3].bytes); }
static int64_t unpin(const union argument *a) { return ae_unpin(a[0].text, a[1].text); }
static int64_t enter(const union argument *a)
{
	return ae_enter(a[0].text, a[1].text, a[2].text, a[3].text, a[4].bytes, a[5].u, a[6].bytes, a[7].u,
			(struct ae_entered *)a[8].bytes);
}
static int64_t leave(const union argument *a)
{
	return ae_leave((const char *)a[0].bytes, a[1].u, a[2].text, a[3].text, a[4].text, a[5].bytes, a[6].u);
}
static int64_t replace_file(const union argument *a) { return ae_replace_file(a[0].text, a[1].text, a[2].bytes, a[3].u); }
static int64_t remove_file(const union argument *a) { return ae_remove_file(a[0].text, a[1].text); }
static int64_t share_pins(const union argument *a) { return ae_share_pins(a[0].text); }
static int64_t peer_pidfd(const union argument *a) { return ae_peer_pidfd(a[0].i); }
static int64_t trim_memory(const union argument *a)
{
	(void)a;
	return ae_trim_memory();
}
static int64_t encode_elements(const union argument *a)
{
	return ae_encode_elements(a[0].text, a[1].text, a[2].u, a[3].u, a[4].u, a[5].bytes, a[6].u, a[7].bytes, a[8].u, a[9].u,
				  a[10].bytes, a[11].u);
}

static const struct known_call calls[] = {
	{"ae_netns_check", "tb", netns_check},
	{"ae_netns_identify", "tbb", netns_identify},
	{"ae_transact", "bubuub", transact},
	{"ae_dump_collect", "tubub", dump_collect},
	{"ae_dump_take", "lbl", dump_take},
	{"ae_pin", "tttb", pin},
	{"ae_unpin", "tt", unpin},
	{"ae_enter", "ttttbubub", enter},
	{"ae_leave", "butttbu", leave},
	{"ae_replace_file", "ttbu", replace_file},
	{"ae_remove_file", "tt", remove_file},
	{"ae_share_pins", "t", share_pins},
	{"ae_peer_pidfd", "i", peer_pidfd},
	{"ae_trim_memory", "", trim_memory},
	{"ae_encode_elements", "ttuuububuubu", encode_elements},
};
#define CALL_COUNT (sizeof calls / sizeof *calls)

struct job {
	struct work work; /* first */
	const struct known_call *call;
	napi_deferred deferred;
	int64_t result;
	union argument arguments[MAX_ARGUMENTS];
};

/* One event loop has one: it is made at the first call and lives as long as the addon. */
static napi_threadsafe_function done;
static uint32_t under_way;

static void run_job(struct work *work);

static napi_value refuse(napi_env env, const char *why)
{
	napi_throw_type_error(env, NULL, why);
	return NULL;
}

static char *copy_text(napi_env env, napi_value value)
{
	size_t length;
	char *text;

	if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok)
		return NULL;
	text = malloc(length + 1);
	if (text)
		napi_get_value_string_utf8(env, value, text, length + 1, &length);
	return text;
}

static int read_bytes(napi_env env, napi_value value, uint8_t **bytes)
{
	napi_typedarray_type type;
	size_t length;

	return napi_get_typedarray_info(env, value, &type, &length, (void **)bytes, NULL, NULL) == napi_ok &&
	       type == napi_uint8_array;
}

static int read_argument(napi_env env, napi_value value, char kind, union argument *argument)
{
	bool lossless;

	switch (kind) {
	case 't':
		argument->text = copy_text(env, value);
		return argument->text != NULL;
	case 'b':
		return read_bytes(env, value, &argument->bytes);
	case 'i':
		return napi_get_value_int32(env, value, &argument->i) == napi_ok;
	case 'u':
		return napi_get_value_uint32(env, value, &argument->u) == napi_ok;
	default:
		return napi_get_value_bigint_int64(env, value, &argument->l, &lossless) == napi_ok;
	}
}

static void free_texts(struct job *job)
{
	for (const char *kind = job->call->takes; *kind; kind++)
		if (*kind == 't')
			free((char *)job->arguments[kind - job->call->takes].text);
}

/* Reads (number, …arguments) into `job`; 0 with an exception where they are not what the call takes. */
static int read_job(napi_env env, napi_callback_info info, struct job *job)
{
	napi_value values[MAX_ARGUMENTS + 1];
	size_t count = MAX_ARGUMENTS + 1;
	uint32_t number;

	if (napi_get_cb_info(env, info, &count, values, NULL, NULL) != napi_ok ||
	    napi_get_value_uint32(env, values[0], &number) != napi_ok || number >= CALL_COUNT) {
		refuse(env, "no such function");
		return 0;
	}
	job->work.run = run_job;
	job->call = &calls[number];
	memset(job->arguments, 0, sizeof job->arguments);
	for (size_t i = 0; job->call->takes[i]; i++)
		if (i + 1 >= count || !read_argument(env, values[i + 1], job->call->takes[i], &job->arguments[i])) {
			free_texts(job);
			refuse(env, "an argument is not of the kind that the function takes");
			return 0;
		}
	return 1;
}

static napi_value to_value(napi_env env, int64_t result)
{
	napi_value value = NULL;

	napi_create_int64(env, result, &value);
	return value;
}

static napi_value call_now(napi_env env, napi_callback_info info)
{
	struct job job;
	int64_t result;

	if (!read_job(env, info, &job))
		return NULL;
	result = job.call->run(job.arguments);
	free_texts(&job);
	return to_value(env, result);
}

/* On the event loop: the call is over. */
static void settle(napi_env env, napi_value callback, void *context, void *data)
{
	struct job *job = data;

	(void)callback;
	(void)context;
	if (env) {
		napi_resolve_deferred(env, job->deferred, to_value(env, job->result));
		if (--under_way == 0)
			napi_unref_threadsafe_function(env, done);
	}
	free_texts(job);
	free(job);
}

static void run_job(struct work *work)
{
	struct job *job = (struct job *)work;

	job->result = job->call->run(job->arguments);
	/* Where the process is ending, nobody waits for it any more. */
	napi_call_threadsafe_function(done, job, napi_tsfn_blocking);
	napi_release_threadsafe_function(done, napi_tsfn_release);
}

static int make_done(napi_env env)
{
	napi_value name;

	if (done)
		return 1;
	if (napi_create_string_utf8(env, "aether", NAPI_AUTO_LENGTH, &name) != napi_ok ||
	    napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, NULL, NULL, NULL, settle, &done) != napi_ok)
		return 0;
	napi_unref_threadsafe_function(env, done);
	return 1;
}

static napi_value call_off_thread(napi_env env, napi_callback_info info)
{
	struct job *job = malloc(sizeof *job);
	napi_value promise = NULL;
	int error;

	if (!job || !make_done(env)) {
		free(job);
		return refuse(env, "no memory for a call");
	}
	if (!read_job(env, info, job)) {
		free(job);
		return NULL;
	}
	napi_create_promise(env, &job->deferred, &promise);
	if (under_way++ == 0)
		napi_ref_threadsafe_function(env, done);
	napi_acquire_threadsafe_function(done);
	error = ae_hand_over(&job->work);
	if (error) {
		napi_release_threadsafe_function(done, napi_tsfn_release);
		job->result = -error;
		settle(env, NULL, NULL, job);
	}
	return promise;
}

/* [["ae_netns_check", "tb"], …], by number. */
static napi_value list_calls(napi_env env)
{
	napi_value list;

	napi_create_array_with_length(env, CALL_COUNT, &list);
	for (uint32_t i = 0; i < CALL_COUNT; i++) {
		napi_value pair, name, takes;

		napi_create_array_with_length(env, 2, &pair);
		napi_create_string_utf8(env, calls[i].name, NAPI_AUTO_LENGTH, &name);
		napi_create_string_utf8(env, calls[i].takes, NAPI_AUTO_LENGTH, &takes);
		napi_set_element(env, pair, 0, name);
		napi_set_element(env, pair, 1, takes);
		napi_set_element(env, list, i, pair);
	}
	return list;
}

NAPI_MODULE_INIT()
{
	napi_value now, off;

	napi_create_function(env, "call", NAPI_AUTO_LENGTH, call_now, NULL, &now);
	napi_create_function(env, "callOffThread", NAPI_AUTO_LENGTH, call_off_thread, NULL, &off);
	napi_set_named_property(env, exports, "call", now);
	napi_set_named_property(env, exports, "callOffThread", off);
	napi_set_named_property(env, exports, "calls", list_calls(env));
	relay_addon_export(env, exports);
	return exports;
}
