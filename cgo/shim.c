//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include "abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WP_SYMBOL(name, parameters) {"nixl_capi_" #name, offsetof(wp_nixl, name)},

static const struct {
	const char *name;
	size_t offset;
} wp_symbols[] = {WP_FUNCTIONS(WP_SYMBOL)};

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

// dlerror's text belongs to the calling thread, so it is copied before Go can change threads.
wp_nixl *wp_nixl_open(const char *path, int *failure, char **text) {
	// RTLD_LOCAL hides the C++ symbols of the library's many dependencies from other libraries.
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL) {
		const char *reason = dlerror();
		*failure = WP_NIXL_OPEN;
		*text = strdup(reason != NULL ? reason : "no reason given");
		return NULL;
	}
	wp_nixl *lib = calloc(1, sizeof *lib);
	const char *missing = lib != NULL ? wp_resolve(handle, lib) : "memory";
	if (missing == NULL) {
		return lib;
	}
	free(lib);
	dlclose(handle);
	*failure = WP_NIXL_SYMBOL;
	*text = strdup(missing);
	return NULL;
}

int wp_agent_create(wp_nixl *lib, const char *name, wp_agent *agent) {
	// The progress thread answers peers while no call is in this agent. Events wake it; the
	// delay covers those that UCX loses. With 0, the library's default, it never sleeps and
	// takes a third of a core.
	struct nixl_config config = {.progress_thread = true, .progress_delay_us = 10000, .sync = NIXL_SYNC_STRICT};
	return lib->create_configured_agent(name, &config, &agent->agent);
}

int wp_agent_destroy(wp_nixl *lib, wp_agent *agent) {
	if (agent->args != NULL) {
		lib->destroy_opt_args(agent->args);
	}
	if (agent->backend != NULL) {
		lib->destroy_backend(agent->backend); // the handle only: the backend ends with its agent
	}
	return lib->destroy_agent(agent->agent);
}

int wp_backend_create(wp_nixl *lib, wp_agent *agent, const char *plugin) {
	void *params = NULL;
	int status = lib->create_params(&params);
	if (status != NIXL_DONE) {
		return status;
	}
	status = lib->create_backend(agent->agent, plugin, params, &agent->backend);
	lib->destroy_params(params);
	if (status == NIXL_DONE) {
		status = lib->create_opt_args(&agent->args);
	}
	return status != NIXL_DONE ? status : lib->opt_args_add_backend(agent->args, agent->backend);
}

int wp_plugins(wp_nixl *lib, wp_agent *agent, char **names, size_t *len) {
	void *list = NULL;
	size_t size = 0;
	int status = lib->get_available_plugins(agent->agent, &list);
	if (status != NIXL_DONE) {
		return status;
	}
	FILE *joined = open_memstream(names, len);
	status = joined != NULL ? lib->string_list_size(list, &size) : NIXL_BACKEND; // no memory: a failure as any other
	for (size_t i = 0; status == NIXL_DONE && i < size; i++) {
		const char *name = NULL;
		status = lib->string_list_get(list, i, &name);
		if (status == NIXL_DONE) {
			fwrite(name, 1, strlen(name) + 1, joined);
		}
	}
	if (joined != NULL && fclose(joined) != 0) {
		status = NIXL_BACKEND;
	}
	int freed = lib->destroy_string_list(list);
	return status != NIXL_DONE ? status : freed;
}
