// The C side of package cgo: loads libnixl_capi.so and folds its many small calls into one for
// each operation of the Go API.
#ifndef WARMPATH_CGO_SHIM_H
#define WARMPATH_CGO_SHIM_H

#include <stddef.h>
#include <stdint.h>

// A loaded library. Its handles (agents, requests) are opaque pointers, its statuses plain
// ints.
typedef struct wp_nixl wp_nixl;

enum { WP_NIXL_OPEN = 1, WP_NIXL_SYMBOL = 2 };

// Loads the library at path (a file, or a name that the loader searches). On failure it returns
// NULL, sets *failure to a WP_NIXL_ value and *text to the loader's message or the missing
// function's name. The caller frees *text.
wp_nixl *wp_nixl_open(const char *path, int *failure, char **text);

// An agent with its backend. backend and args are NULL until wp_backend_create.
typedef struct {
	void *agent;
	void *backend;
	void *args; // options that name the backend, for every call that takes options
} wp_agent;

// A piece of host memory.
typedef struct {
	uint64_t addr;
	uint64_t len;
} wp_region;

int wp_agent_create(wp_nixl *lib, const char *name, wp_agent *agent);
int wp_agent_destroy(wp_nixl *lib, wp_agent *agent);
int wp_backend_create(wp_nixl *lib, wp_agent *agent, const char *plugin);

// Lists the plugins that the agent finds. *names gets their names one after another, each ended
// by a zero byte, *len bytes in all. The caller frees *names.
int wp_plugins(wp_nixl *lib, wp_agent *agent, char **names, size_t *len);

int wp_register(wp_nixl *lib, wp_agent *agent, const wp_region *regions, size_t count);
int wp_deregister(wp_nixl *lib, wp_agent *agent, const wp_region *regions, size_t count);

// The caller frees *data and *name.
int wp_local_metadata(wp_nixl *lib, wp_agent *agent, void **data, size_t *len);
int wp_load_peer(wp_nixl *lib, wp_agent *agent, const void *data, size_t len, char **name);
int wp_forget_peer(wp_nixl *lib, wp_agent *agent, const char *name);

// Prepares a transfer of count pieces: local[i] and remote[i] belong together and have equal
// lengths. op 0 reads, 1 writes.
int wp_request_create(wp_nixl *lib, wp_agent *agent, int op, const char *peer, const wp_region *local,
		      const wp_region *remote, size_t count, void **request);
int wp_request_post(wp_nixl *lib, wp_agent *agent, void *request);
int wp_request_release(wp_nixl *lib, wp_agent *agent, void *request);

// Waits until a request is no longer in progress, timeout_ns have passed, or *wake is not 0.
// statuses[i] gets the status of requests[i]. It returns the number of requests no longer in
// progress.
size_t wp_wait(wp_nixl *lib, wp_agent *agent, void *const *requests, int *statuses, size_t count,
	       uint64_t timeout_ns, const uint32_t *wake);

#endif
