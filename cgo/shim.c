//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// The functions in use, with the signatures of nixl-sys 1.5.1 wrapper.h. Every handle there is a pointer to an opaque
// struct, and nixl_capi_status_t is an int-sized enum.
struct wp_nixl {
	int (*create_agent)(const char *name, void **agent);
	int (*destroy_agent)(void *agent);
	int (*get_available_plugins)(void *agent, void **list);
	int (*string_list_size)(void *list, size_t *size);
	int (*string_list_get)(void *list, size_t index, const char **str);
	int (*destroy_string_list)(void *list);
};

static const struct {
	const char *name;
	size_t offset;
} wp_symbols[] = {
	{"nixl_capi_create_agent", offsetof(wp_nixl, create_agent)},
	{"nixl_capi_destroy_agent", offsetof(wp_nixl, destroy_agent)},
	{"nixl_capi_get_available_plugins", offsetof(wp_nixl, get_available_plugins)},
	{"nixl_capi_string_list_size", offsetof(wp_nixl, string_list_size)},
	{"nixl_capi_string_list_get", offsetof(wp_nixl, string_list_get)},
	{"nixl_capi_destroy_string_list", offsetof(wp_nixl, destroy_string_list)},
};

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

int wp_nixl_agent_create(wp_nixl *lib, const char *name, void **agent) {
	return lib->create_agent(name, agent);
}

int wp_nixl_agent_destroy(wp_nixl *lib, void *agent) {
	return lib->destroy_agent(agent);
}

// Appends one name with its zero byte to a growing buffer. Returns 0 when there is no memory left.
static int wp_append(char **names, size_t *len, const char *name) {
	size_t n = strlen(name) + 1;
	char *grown = realloc(*names, *len + n);
	if (grown == NULL) {
		return 0;
	}
	memcpy(grown + *len, name, n);
	*names = grown;
	*len += n;
	return 1;
}

int wp_nixl_plugins(wp_nixl *lib, void *agent, char **names, size_t *len) {
	void *list = NULL;
	size_t size = 0;
	int status = lib->get_available_plugins(agent, &list);
	if (status != 0) {
		return status;
	}
	status = lib->string_list_size(list, &size);
	for (size_t i = 0; status == 0 && i < size; i++) {
		const char *name = NULL;
		status = lib->string_list_get(list, i, &name);
		if (status == 0 && !wp_append(names, len, name)) {
			status = -2; // Without memory, as for every other failure of a backend.
		}
	}
	int freed = lib->destroy_string_list(list);
	return status != 0 ? status : freed;
}
