//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include "abi.h"

#include <stdlib.h>
#include <string.h>

// Bytes that grow.
struct wp_bytes {
	char *data;
	size_t len;
};

// Returns 0 when there is no memory left.
static int wp_append(struct wp_bytes *b, const void *data, size_t len) {
	char *grown = realloc(b->data, b->len + len + 1); // never 0 bytes, which realloc could answer with NULL
	if (grown == NULL) {
		return 0;
	}
	memcpy(grown + b->len, data, len);
	b->data = grown;
	b->len += len;
	return 1;
}

static int wp_append_sized(struct wp_bytes *b, const void *data, size_t len) {
	uint32_t size = (uint32_t)len;
	return len <= UINT32_MAX && wp_append(b, &size, sizeof size) && wp_append(b, data, len);
}

int wp_nixl_plugins(wp_nixl *lib, wp_agent *agent, char **names, size_t *len) {
	void *list = NULL;
	size_t size = 0;
	struct wp_bytes all = {0};
	int status = lib->get_available_plugins(agent->agent, &list);
	if (status != NIXL_DONE) {
		return status;
	}
	status = lib->string_list_size(list, &size);
	for (size_t i = 0; status == NIXL_DONE && i < size; i++) {
		const char *name = NULL;
		status = lib->string_list_get(list, i, &name);
		if (status == NIXL_DONE && !wp_append(&all, name, strlen(name) + 1)) {
			status = NIXL_BACKEND; // without memory, as for every other failure of a backend
		}
	}
	int freed = lib->destroy_string_list(list);
	*names = all.data;
	*len = all.len;
	return status != NIXL_DONE ? status : freed;
}

int wp_notify(wp_nixl *lib, wp_agent *agent, const char *name, const void *data, size_t len) {
	return lib->gen_notif(agent->agent, name, data, len, agent->args);
}

// Appends all messages of the agent at index.
static int wp_notes_of(wp_nixl *lib, void *map, size_t index, struct wp_bytes *all) {
	const char *name = NULL;
	size_t count = 0;
	int status = lib->notif_map_get_agent_at(map, index, &name);
	if (status == NIXL_DONE) {
		status = lib->notif_map_get_notifs_size(map, name, &count);
	}
	for (size_t i = 0; status == NIXL_DONE && i < count; i++) {
		const void *data = NULL;
		size_t len = 0;
		status = lib->notif_map_get_notif(map, name, i, &data, &len);
		if (status == NIXL_DONE && !(wp_append_sized(all, name, strlen(name)) && wp_append_sized(all, data, len))) {
			status = NIXL_BACKEND;
		}
	}
	return status;
}

int wp_notes(wp_nixl *lib, wp_agent *agent, char **data, size_t *len) {
	void *map = NULL;
	size_t size = 0;
	struct wp_bytes all = {0};
	int status = lib->create_notif_map(&map);
	if (status != NIXL_DONE) {
		return status;
	}
	status = lib->get_notifs(agent->agent, map, agent->args);
	if (status == NIXL_DONE) {
		status = lib->notif_map_size(map, &size);
	}
	for (size_t i = 0; status == NIXL_DONE && i < size; i++) {
		status = wp_notes_of(lib, map, i, &all);
	}
	lib->destroy_notif_map(map);
	*data = all.data;
	*len = all.len;
	return status;
}
