//go:build cgo && linux

#include "shim.h"

#include "abi.h"

typedef int (*wp_registrar)(void *agent, void *list, void *args);

static int wp_with_regions(wp_nixl *lib, wp_agent *agent, wp_registrar call, const wp_region *regions, size_t count) {
	void *list = NULL;
	int status = lib->create_reg_dlist(NIXL_HOST_MEMORY, &list);
	if (status != NIXL_DONE) {
		return status;
	}
	for (size_t i = 0; status == NIXL_DONE && i < count; i++) {
		status = lib->reg_dlist_add_desc(list, regions[i].addr, regions[i].len, 0, NULL, 0);
	}
	if (status == NIXL_DONE) {
		status = call(agent->agent, list, agent->args);
	}
	lib->destroy_reg_dlist(list);
	return status;
}

int wp_register(wp_nixl *lib, wp_agent *agent, const wp_region *regions, size_t count) {
	return wp_with_regions(lib, agent, lib->register_mem, regions, count);
}

int wp_deregister(wp_nixl *lib, wp_agent *agent, const wp_region *regions, size_t count) {
	return wp_with_regions(lib, agent, lib->deregister_mem, regions, count);
}

int wp_local_metadata(wp_nixl *lib, wp_agent *agent, void **data, size_t *len) {
	return lib->get_local_md(agent->agent, data, len);
}

int wp_load_peer(wp_nixl *lib, wp_agent *agent, const void *data, size_t len, char **name) {
	return lib->load_remote_md(agent->agent, data, len, name);
}

int wp_forget_peer(wp_nixl *lib, wp_agent *agent, const char *name) {
	return lib->invalidate_remote_md(agent->agent, name);
}
