/* Adds the functions of the relay's listener to the addon; see relay-addon.c. */
#ifndef RELAY_ADDON_H
#define RELAY_ADDON_H

#include <node_api.h>

void relay_addon_export(napi_env env, napi_value exports);

#endif
