// The C side of package cgo: loads libnixl_capi.so and makes of its many small calls one for each thing that Go wants done.
#ifndef WARMPATH_CGO_SHIM_H
#define WARMPATH_CGO_SHIM_H

#include <stddef.h>
#include <stdint.h>

// A loaded library. Handles of the library (agents, requests) are opaque pointers, its statuses plain ints.
typedef struct wp_nixl wp_nixl;

enum { WP_NIXL_OK = 0, WP_NIXL_OPEN = 1, WP_NIXL_SYMBOL = 2 };

// Loads the library at path (a file, or a name that the loader searches). On failure returns NULL and sets *why to a
// WP_NIXL_ value and *text to the loader's words or the missing function's name; the caller frees *text.
wp_nixl *wp_nixl_open(const char *path, int *why, char **text);

// An agent with its backend. backend and args are NULL until wp_backend_create.
typedef struct {
	void *agent;
	void *backend;
	void *args; // options that name the backend, for every call that takes some
} wp_agent;

// A piece of memory; dev is the GPU for device memory and 0 for host memory.
typedef struct {
	uint64_t addr;
	uint64_t len;
	uint64_t dev;
} wp_region;

typedef struct {
	uint64_t start_us;
	uint64_t post_us;
	uint64_t transfer_us;
	uint64_t bytes;
	uint64_t descriptors;
} wp_telemetry;

int wp_agent_create(wp_nixl *lib, const char *name, int telemetry, wp_agent *agent);
int wp_agent_destroy(wp_nixl *lib, wp_agent *agent);

// Lists the plugins that the agent finds. *names gets their names one after another, each ended by a zero byte, *len
// bytes in all; the caller frees *names.
int wp_nixl_plugins(wp_nixl *lib, wp_agent *agent, char **names, size_t *len);

// Creates the agent's backend. params holds count keys and values, one after another, each ended by a zero byte.
int wp_backend_create(wp_nixl *lib, wp_agent *agent, const char *plugin, const char *params, size_t count);

int wp_register(wp_nixl *lib, wp_agent *agent, int kind, const wp_region *regions, size_t count);
int wp_deregister(wp_nixl *lib, wp_agent *agent, int kind, const wp_region *regions, size_t count);

// The caller frees *data and *name.
int wp_local_metadata(wp_nixl *lib, wp_agent *agent, void **data, size_t *len);
int wp_load_remote(wp_nixl *lib, wp_agent *agent, const void *data, size_t len, char **name);
int wp_invalidate_remote(wp_nixl *lib, wp_agent *agent, const char *name);
int wp_connect(wp_nixl *lib, wp_agent *agent, const char *name);

// What a request is to do: local[i] and remote[i] belong together and have equal lengths. note is sent to the peer when all is done; NULL is none.
typedef struct {
	int op; // 0 reads, 1 writes
	int local_kind, remote_kind;
	const char *peer;
	const void *note;
	size_t note_len;
	size_t count;
} wp_job;

int wp_request_create(wp_nixl *lib, wp_agent *agent, const wp_job *job, const wp_region *local, const wp_region *remote, void **request);
int wp_request_post(wp_nixl *lib, wp_agent *agent, void *request);
int wp_request_status(wp_nixl *lib, wp_agent *agent, void *request);
int wp_request_release(wp_nixl *lib, wp_agent *agent, void *request);
int wp_request_telemetry(wp_nixl *lib, wp_agent *agent, void *request, wp_telemetry *telemetry);

// Waits until a request is no longer in progress, timeout_ns have passed, or *wake is not 0. statuses[i] gets the status of requests[i];
// returns how many are no longer in progress.
size_t wp_wait(wp_nixl *lib, wp_agent *agent, void *const *requests, int *statuses, size_t count, uint64_t timeout_ns, const uint32_t *wake);

int wp_notify(wp_nixl *lib, wp_agent *agent, const char *name, const void *data, size_t len);

// Takes the messages that have come. *data gets, for each, length of name, name, length of message, message; lengths are 4 bytes in the
// machine's order. *len is 0 when there are none. The caller frees *data.
int wp_notes(wp_nixl *lib, wp_agent *agent, char **data, size_t *len);

#endif
