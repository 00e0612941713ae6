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

// The functions by name and parameters. Each returns a nixl_capi_status_t.
#define WP_FUNCTIONS(X) \
	/* Agents and their backends. */ \
	X(create_configured_agent, (const char *name, const struct nixl_config *config, void **agent)) \
	X(destroy_agent, (void *agent)) \
	X(create_params, (void **params)) \
	X(destroy_params, (void *params)) \
	X(create_backend, (void *agent, const char *plugin, void *params, void **backend)) \
	X(destroy_backend, (void *backend)) \
	X(create_opt_args, (void **args)) \
	X(destroy_opt_args, (void *args)) \
	X(opt_args_add_backend, (void *args, void *backend)) \
	/* Plugins. */ \
	X(get_available_plugins, (void *agent, void **list)) \
	X(string_list_size, (void *list, size_t *size)) \
	X(string_list_get, (void *list, size_t index, const char **str)) \
	X(destroy_string_list, (void *list)) \
	/* Memory. */ \
	X(create_reg_dlist, (int kind, void **list)) \
	X(destroy_reg_dlist, (void *list)) \
	X(reg_dlist_add_desc, (void *list, uintptr_t addr, size_t len, uint64_t dev, const void *meta, size_t meta_len)) \
	X(register_mem, (void *agent, void *list, void *args)) \
	X(deregister_mem, (void *agent, void *list, void *args)) \
	/* Peers. */ \
	X(get_local_md, (void *agent, void **data, size_t *len)) \
	X(load_remote_md, (void *agent, const void *data, size_t len, char **name)) \
	X(invalidate_remote_md, (void *agent, const char *name)) \
	/* Transfers. */ \
	X(create_xfer_dlist, (int kind, void **list)) \
	X(destroy_xfer_dlist, (void *list)) \
	X(xfer_dlist_add_desc, (void *list, uintptr_t addr, size_t len, uint64_t dev)) \
	X(create_xfer_req, (void *agent, int op, void *local, void *remote, const char *name, void **request, void *args)) \
	X(post_xfer_req, (void *agent, void *request, void *args)) \
	X(get_xfer_status, (void *agent, void *request)) \
	X(release_xfer_req, (void *agent, void *request)) \
	X(destroy_xfer_req, (void *request))

#define WP_POINTER(name, parameters) int(*name) parameters;
struct wp_nixl {
	WP_FUNCTIONS(WP_POINTER)
};

#endif
