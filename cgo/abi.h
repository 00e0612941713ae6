// The functions of libnixl_capi.so in use, as a table that dlsym fills.
//
// The signatures are those of wrapper.h in the crate nixl-sys 1.5.1, which documents this C
// ABI. Every handle there is a pointer to an opaque struct, and nixl_capi_status_t an int-sized
// enum.
#ifndef WARMPATH_CGO_ABI_H
#define WARMPATH_CGO_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NIXL_DONE = 0, NIXL_IN_PROGRESS = 1, NIXL_BACKEND = -2 };

// Kinds of memory; the others are of no use here.
enum { NIXL_HOST_MEMORY = 0 };

// Number of the caller's threads that may use one agent at a time. One thread makes all calls,
// so the library's own locks only guard against its progress thread.
enum { NIXL_SYNC_STRICT = 1 };

struct nixl_config {
	bool progress_thread;
	bool listen_thread;
	int listen_port;
	int sync;
	unsigned int workers;
	uint64_t progress_delay_us;
	uint64_t listen_delay_us;
	bool telemetry;
};

struct wp_nixl {
	// Agents and their backends.
	int (*create_configured_agent)(const char *name, const struct nixl_config *config, void **agent);
	int (*destroy_agent)(void *agent);
	int (*create_params)(void **params);
	int (*destroy_params)(void *params);
	int (*create_backend)(void *agent, const char *plugin, void *params, void **backend);
	int (*destroy_backend)(void *backend);
	int (*create_opt_args)(void **args);
	int (*destroy_opt_args)(void *args);
	int (*opt_args_add_backend)(void *args, void *backend);

	// Plugins.
	int (*get_available_plugins)(void *agent, void **list);
	int (*string_list_size)(void *list, size_t *size);
	int (*string_list_get)(void *list, size_t index, const char **str);
	int (*destroy_string_list)(void *list);

	// Memory.
	int (*create_reg_dlist)(int kind, void **list);
	int (*destroy_reg_dlist)(void *list);
	int (*reg_dlist_add_desc)(void *list, uintptr_t addr, size_t len, uint64_t dev, const void *meta, size_t meta_len);
	int (*register_mem)(void *agent, void *list, void *args);
	int (*deregister_mem)(void *agent, void *list, void *args);

	// Peers.
	int (*get_local_md)(void *agent, void **data, size_t *len);
	int (*load_remote_md)(void *agent, const void *data, size_t len, char **name);
	int (*invalidate_remote_md)(void *agent, const char *name);

	// Transfers.
	int (*create_xfer_dlist)(int kind, void **list);
	int (*destroy_xfer_dlist)(void *list);
	int (*xfer_dlist_add_desc)(void *list, uintptr_t addr, size_t len, uint64_t dev);
	int (*create_xfer_req)(void *agent, int op, void *local, void *remote, const char *name, void **request, void *args);
	int (*post_xfer_req)(void *agent, void *request, void *args);
	int (*get_xfer_status)(void *agent, void *request);
	int (*release_xfer_req)(void *agent, void *request);
	int (*destroy_xfer_req)(void *request);
};

#endif
