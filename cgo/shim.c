//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include "abi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define WP_SYMBOL(name) {"nixl_capi_" #name, offsetof(wp_nixl, name)}

static const struct {
	const char *name;
	size_t offset;
} wp_symbols[] = {
	WP_SYMBOL(create_configured_agent),
	WP_SYMBOL(destroy_agent),
	WP_SYMBOL(get_available_plugins),
	WP_SYMBOL(string_list_size),
	WP_SYMBOL(string_list_get),
	WP_SYMBOL(destroy_string_list),
	WP_SYMBOL(create_params),
	WP_SYMBOL(params_add),
	WP_SYMBOL(destroy_params),
	WP_SYMBOL(create_backend),
	WP_SYMBOL(destroy_backend),
	WP_SYMBOL(create_opt_args),
	WP_SYMBOL(destroy_opt_args),
	WP_SYMBOL(opt_args_add_backend),
	WP_SYMBOL(opt_args_set_notif_msg),
	WP_SYMBOL(opt_args_set_has_notif),
	WP_SYMBOL(create_reg_dlist),
	WP_SYMBOL(destroy_reg_dlist),
	WP_SYMBOL(reg_dlist_add_desc),
	WP_SYMBOL(register_mem),
	WP_SYMBOL(deregister_mem),
	WP_SYMBOL(get_local_md),
	WP_SYMBOL(load_remote_md),
	WP_SYMBOL(invalidate_remote_md),
	WP_SYMBOL(agent_make_connection),
	WP_SYMBOL(create_xfer_dlist),
	WP_SYMBOL(destroy_xfer_dlist),
	WP_SYMBOL(xfer_dlist_add_desc),
	WP_SYMBOL(create_xfer_req),
	WP_SYMBOL(post_xfer_req),
	WP_SYMBOL(get_xfer_status),
	WP_SYMBOL(release_xfer_req),
	WP_SYMBOL(destroy_xfer_req),
	WP_SYMBOL(get_xfer_telemetry),
	WP_SYMBOL(gen_notif),
	WP_SYMBOL(create_notif_map),
	WP_SYMBOL(destroy_notif_map),
	WP_SYMBOL(get_notifs),
	WP_SYMBOL(notif_map_size),
	WP_SYMBOL(notif_map_get_agent_at),
	WP_SYMBOL(notif_map_get_notifs_size),
	WP_SYMBOL(notif_map_get_notif),
};

// Every pointer of the table is filled, so that no call can meet a NULL.
_Static_assert(sizeof(wp_nixl) == sizeof wp_symbols / sizeof wp_symbols[0] * sizeof(void *), "a function of the table has no symbol");

// Fills the table. Returns NULL, or the name of the first function that the library lacks.
static const char *wp_resolve(void *handle, wp_nixl *lib) {
	for (size_t i = 0; i < sizeof wp_symbols / sizeof wp_symbols[0]; i++) {
		void *symbol = dlsym(handle, wp_symbols[i].name);
		if (symbol == NULL) {
			return wp_symbols[i].name;
		}
		memcpy((char *)lib + wp_symbols[i].offset, &symbol, sizeof symbol);
	}
	return NULL;
}

// dlerror's text belongs to the calling thread, so it is copied here, before Go can move to another thread.
wp_nixl *wp_nixl_open(const char *path, int *why, char **text) {
	// RTLD_LOCAL keeps the C++ symbols of the library's many dependencies out of the way of others.
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL) {
		const char *reason = dlerror();
		*why = WP_NIXL_OPEN;
		*text = strdup(reason != NULL ? reason : "no reason given");
		return NULL;
	}
	wp_nixl *lib = calloc(1, sizeof *lib);
	const char *lacking = lib != NULL ? wp_resolve(handle, lib) : "memory";
	if (lacking == NULL) {
		*why = WP_NIXL_OK;
		return lib;
	}
	free(lib);
	dlclose(handle);
	*why = WP_NIXL_SYMBOL;
	*text = strdup(lacking);
	return NULL;
}

int wp_agent_create(wp_nixl *lib, const char *name, int telemetry, wp_agent *agent) {
	// The progress thread answers peers while nobody calls into this agent. Events wake it; the delay is for those that UCX forgets. With 0, which is
	// the library's default, it never sleeps and takes a third of a core.
	struct nixl_config config = {.progress_thread = true, .progress_delay_us = 10000, .sync = NIXL_SYNC_STRICT, .telemetry = telemetry != 0};
	return lib->create_configured_agent(name, &config, &agent->agent);
}

int wp_agent_destroy(wp_nixl *lib, wp_agent *agent) {
	if (agent->args != NULL) {
		lib->destroy_opt_args(agent->args);
	}
	if (agent->backend != NULL) {
		lib->destroy_backend(agent->backend); // frees the handle only; the backend itself ends with its agent
	}
	return lib->destroy_agent(agent->agent);
}

static int wp_fill_params(wp_nixl *lib, void *params, const char *text, size_t count) {
	int status = NIXL_DONE;
	for (size_t i = 0; status == NIXL_DONE && i < count; i++) {
		const char *value = text + strlen(text) + 1;
		status = lib->params_add(params, text, value);
		text = value + strlen(value) + 1;
	}
	return status;
}

int wp_backend_create(wp_nixl *lib, wp_agent *agent, const char *plugin, const char *params, size_t count) {
	void *list = NULL;
	int status = lib->create_params(&list);
	if (status != NIXL_DONE) {
		return status;
	}
	status = wp_fill_params(lib, list, params, count);
	if (status == NIXL_DONE) {
		status = lib->create_backend(agent->agent, plugin, list, &agent->backend);
	}
	lib->destroy_params(list);
	if (status == NIXL_DONE) {
		status = lib->create_opt_args(&agent->args);
	}
	return status != NIXL_DONE ? status : lib->opt_args_add_backend(agent->args, agent->backend);
}
