/* The relay's listener as JavaScript has it: relayListen(), whose value the other functions take first. What they take and
 * give stands in src/adapters/relay/relay-listener.ts. */
#include "relay-addon.h"
#include "relay-listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_ROOM 4096

/* Behind JavaScript's value. Freed when that is collected and the listener has ended. */
struct face {
	napi_env env;
	napi_ref on_event;
	napi_async_cleanup_hook_handle cleanup;
	struct relay_listener *listener; /* NULL: it has ended */
	int is_collected;
};

static napi_value refuse(napi_env env, const char *why)
{
	napi_throw_type_error(env, NULL, why);
	return NULL;
}

static napi_value to_number(napi_env env, int32_t number)
{
	napi_value value = NULL;

	napi_create_int32(env, number, &value);
	return value;
}

static int is_ascii(const struct relay_text *text)
{
	unsigned char all = 0;

	for (size_t i = 0; i < text->length; i++)
		all |= (unsigned char)text->bytes[i];
	return all < 0x80;
}

/* A string where that can be nothing else: what else is no ASCII may be no UTF-8. */
static int make_input(napi_env env, const struct relay_text *text, napi_value *value)
{
	if (is_ascii(text))
		return napi_create_string_latin1(env, text->bytes, text->length, value) == napi_ok;
	return napi_create_buffer_copy(env, text->length, text->bytes, NULL, value) == napi_ok;
}

static int make_text(napi_env env, const struct relay_text *text, napi_value *value)
{
	if (!text->bytes)
		return napi_get_undefined(env, value) == napi_ok;
	return napi_create_string_utf8(env, text->bytes, text->length, value) == napi_ok;
}

static int make_arguments(napi_env env, enum relay_event event, const struct relay_told *told, napi_value *values)
{
	static const struct relay_text none;

	napi_create_int32(env, event, &values[0]);
	napi_create_int32(env, told->fd, &values[1]);
	napi_create_int32(env, told->pid, &values[2]);
	napi_create_uint32(env, told->uid, &values[3]);
	napi_create_uint32(env, told->gid, &values[4]);
	for (int i = 0; i < RELAY_VARIABLES; i++)
		if (!make_text(env, told->variables ? &told->variables[i] : &none, &values[6 + i]))
			return 0;
	return told->variables ? make_input(env, &told->text, &values[5]) : make_text(env, &told->text, &values[5]);
}

/* onEvent(event, fd, pid, uid, gid, text, …variables) */
static int tell(void *user, enum relay_event event, const struct relay_told *told)
{
	struct face *face = user;
	napi_env env = face->env;
	napi_handle_scope scope;
	napi_value function, values[6 + RELAY_VARIABLES], thrown;
	bool is_told = false, is_thrown = false;

	if (napi_open_handle_scope(env, &scope) != napi_ok)
		return 0;
	if (make_arguments(env, event, told, values) &&
	    napi_get_reference_value(env, face->on_event, &function) == napi_ok) {
		is_told = true;
		napi_make_callback(env, NULL, function, function, sizeof values / sizeof *values, values, NULL);
	}
	napi_is_exception_pending(env, &is_thrown);
	if (is_thrown && napi_get_and_clear_last_exception(env, &thrown) == napi_ok)
		napi_fatal_exception(env, thrown);
	napi_close_handle_scope(env, scope);
	return is_told;
}

static void ended(void *user)
{
	struct face *face = user;

	face->listener = NULL;
	napi_delete_reference(face->env, face->on_event);
	napi_remove_async_cleanup_hook(face->cleanup);
	if (face->is_collected)
		free(face);
}

/* The environment ends, a worker's or the process's, whatever is open. */
static void on_environment_end(napi_async_cleanup_hook_handle hook, void *data)
{
	struct face *face = data;

	(void)hook;
	if (face->listener)
		relay_listener_kill(face->listener);
}

static void on_collected(napi_env env, void *data, void *hint)
{
	struct face *face = data;

	(void)env;
	(void)hint;
	face->is_collected = 1;
	if (!face->listener)
		free(face);
}

static int read_numbers(napi_env env, const napi_value *values, uint32_t *const *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (napi_get_value_uint32(env, values[i], numbers[i]) != napi_ok)
			return 0;
	return 1;
}

static napi_value fail(napi_env env, const char *what, int error)
{
	char message[128];

	snprintf(message, sizeof message, "%s: %s: %s", what, uv_err_name(-error), uv_strerror(-error));
	napi_throw_error(env, uv_err_name(-error), message);
	return NULL;
}

static napi_value start(napi_env env, struct face *face, const struct relay_listening *options)
{
	napi_value value = NULL;
	uv_loop_t *loop;
	const char *what;
	int error;

	if (napi_get_uv_event_loop(env, &loop) != napi_ok)
		return refuse(env, "relayListen: no event loop");
	face->listener = relay_listener_start(loop, options, &what, &error);
	if (!face->listener)
		return fail(env, what, error);
	napi_add_async_cleanup_hook(env, on_environment_end, face, &face->cleanup);
	napi_create_external(env, face, on_collected, NULL, &value);
	return value;
}

/* relayListen(path, mode, backlog, requestMs, answerMs, maxPending, onEvent); throws. */
static napi_value relay_listen(napi_env env, napi_callback_info info)
{
	char path[PATH_ROOM];
	struct relay_listening options = {.path = path, .tell = tell, .ended = ended};
	uint32_t *const numbers[] = {&options.mode, &options.backlog, &options.request_ms, &options.answer_ms,
				     &options.pending_max};
	struct face *face = calloc(1, sizeof *face);
	napi_value values[7], value = NULL;
	size_t count = 7, length;

	options.user = face;
	if (!face || napi_get_cb_info(env, info, &count, values, NULL, NULL) != napi_ok ||
	    napi_get_value_string_utf8(env, values[0], path, sizeof path, &length) != napi_ok ||
	    !read_numbers(env, values + 1, numbers, 5) || napi_create_reference(env, values[6], 1, &face->on_event) != napi_ok) {
		free(face);
		return refuse(env, "relayListen: wrong arguments");
	}
	face->env = env;
	value = start(env, face, &options);
	if (!value) {
		napi_delete_reference(env, face->on_event);
		free(face);
	}
	return value;
}

/* Reads (listener, descriptor, …rest): a connection that is JavaScript's. NULL with an exception where there is none. */
static struct relay_listener *read_connection(napi_env env, napi_callback_info info, int32_t *fd, napi_value rest[2])
{
	struct face *face;
	napi_value values[4];
	size_t count = 4;

	if (napi_get_cb_info(env, info, &count, values, NULL, NULL) == napi_ok &&
	    napi_get_value_external(env, values[0], (void **)&face) == napi_ok &&
	    napi_get_value_int32(env, values[1], fd) == napi_ok && face->listener && relay_listener_has(face->listener, *fd)) {
		rest[0] = values[2];
		rest[1] = values[3];
		return face->listener;
	}
	refuse(env, "relay: no such connection");
	return NULL;
}

static napi_value relay_take(napi_env env, napi_callback_info info)
{
	int32_t fd;
	napi_value none[2];
	struct relay_listener *l = read_connection(env, info, &fd, none);

	return l ? to_number(env, relay_listener_take(l, fd)) : NULL;
}

static napi_value act_on(napi_env env, napi_callback_info info, void (*act)(struct relay_listener *l, int fd))
{
	int32_t fd;
	napi_value none[2];
	struct relay_listener *l = read_connection(env, info, &fd, none);

	if (l)
		act(l, fd);
	return NULL;
}

static napi_value relay_watch(napi_env env, napi_callback_info info) { return act_on(env, info, relay_listener_watch); }
static napi_value relay_drop(napi_env env, napi_callback_info info) { return act_on(env, info, relay_listener_drop); }

static napi_value relay_answer(napi_env env, napi_callback_info info)
{
	int32_t fd;
	napi_value rest[2];
	void *bytes;
	size_t room;
	uint32_t length;
	struct relay_listener *l = read_connection(env, info, &fd, rest);

	if (!l)
		return NULL;
	if (napi_get_buffer_info(env, rest[0], &bytes, &room) != napi_ok ||
	    napi_get_value_uint32(env, rest[1], &length) != napi_ok || length > room)
		return refuse(env, "relayAnswer: no bytes");
	return to_number(env, (int32_t)relay_listener_answer(l, fd, bytes, length));
}

static napi_value relay_stop(napi_env env, napi_callback_info info)
{
	struct face *face;
	napi_value value;
	size_t count = 1;

	if (napi_get_cb_info(env, info, &count, &value, NULL, NULL) != napi_ok ||
	    napi_get_value_external(env, value, (void **)&face) != napi_ok)
		return refuse(env, "relayStop: no listener");
	if (face->listener)
		relay_listener_stop(face->listener);
	return NULL;
}

void relay_addon_export(napi_env env, napi_value exports)
{
	static const struct {
		const char *name;
		napi_callback run;
	} functions[] = {
		{"relayListen", relay_listen}, {"relayTake", relay_take}, {"relayWatch", relay_watch},
		{"relayAnswer", relay_answer}, {"relayDrop", relay_drop}, {"relayStop", relay_stop},
	};

	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		napi_value function;

		napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].run, NULL, &function);
		napi_set_named_property(env, exports, functions[i].name, function);
	}
}
