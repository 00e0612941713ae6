// A stand-in for NIXL's libnixl_capi.so: the functions that package cgo resolves, with the
// signatures of nixl-sys 1.5.1.
//
// All agents live in one process and reach each other's memory. Faults are chosen by the names
// of agents and peers: see doc.go.
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, IN_PROGRESS = 1, INVALID_PARAM = -1, BACKEND = -2, INVALID_STATE = -3, NOT_FOUND = -6 };
enum { MANY = 64 };

struct region {
	uintptr_t addr;
	size_t len;
};

struct list {
	struct region *regions;
	size_t count;
};

struct agent {
	pthread_t owner;
	char *name;
	struct list memory;
	char *peers[MANY];
};

struct request {
	int op, status, polls;
	struct list local, remote;
	char *peer;
};

struct config {
	bool progress_thread, listen_thread;
	int listen_port, sync;
	unsigned int workers;
	uint64_t progress_delay_us, listen_delay_us;
	bool telemetry;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct agent *agents[MANY]; // guarded by lock

static struct agent *find(const char *name) {
	struct agent *found = NULL;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MANY; i++) {
		if (agents[i] != NULL && strcmp(agents[i]->name, name) == 0) {
			found = agents[i];
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void replace(struct agent *old, struct agent *new) {
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MANY; i++) {
		if (agents[i] == old) {
			agents[i] = new;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

static bool is_owner(const struct agent *agent) {
	return pthread_equal(agent->owner, pthread_self());
}

static bool add(struct list *list, uintptr_t addr, size_t len) {
	list->regions = realloc(list->regions, (list->count + 1) * sizeof *list->regions);
	list->regions[list->count++] = (struct region){addr, len};
	return true;
}

static bool contains(const struct list *list, struct region r) {
	for (size_t i = 0; i < list->count; i++) {
		if (r.addr >= list->regions[i].addr && r.addr + r.len <= list->regions[i].addr + list->regions[i].len) {
			return true;
		}
	}
	return false;
}

static struct list copy_list(const struct list *from) {
	struct list to = {0};
	for (size_t i = 0; i < from->count; i++) {
		add(&to, from->regions[i].addr, from->regions[i].len);
	}
	return to;
}

int nixl_capi_create_configured_agent(const char *name, const struct config *config, struct agent **agent) {
	if (name == NULL || name[0] == 0 || agent == NULL || !config->progress_thread || config->sync != 1) {
		return INVALID_PARAM;
	}
	if (strncmp(name, "refuse", 6) == 0) {
		return BACKEND;
	}
	*agent = calloc(1, sizeof **agent);
	(*agent)->owner = pthread_self();
	(*agent)->name = strdup(name);
	replace(NULL, *agent);
	return SUCCESS;
}

int nixl_capi_destroy_agent(struct agent *agent) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	replace(agent, NULL);
	return strncmp(agent->name, "stubborn", 8) == 0 ? BACKEND : SUCCESS;
}

// Plugins.

static const char *const plugins[] = {"UCX", "POSIX"};

#ifndef WITHOUT_PLUGINS
int nixl_capi_get_available_plugins(struct agent *agent, void **list) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	*list = malloc(1);
	return SUCCESS;
}
#endif

int nixl_capi_string_list_size(void *list, size_t *size) {
#ifdef NO_PLUGINS
	*size = 0;
#else
	*size = sizeof plugins / sizeof plugins[0];
#endif
	return SUCCESS;
}

int nixl_capi_string_list_get(void *list, size_t index, const char **str) {
	if (index >= sizeof plugins / sizeof plugins[0]) {
		return INVALID_PARAM;
	}
	*str = plugins[index];
	return SUCCESS;
}

int nixl_capi_destroy_string_list(void *list) {
	free(list);
	return SUCCESS;
}

// Backends: UCX only.

int nixl_capi_create_params(void **params) {
	*params = malloc(1);
	return SUCCESS;
}

int nixl_capi_destroy_params(void *params) {
	free(params);
	return SUCCESS;
}

int nixl_capi_create_backend(struct agent *agent, const char *plugin, void *params, void **backend) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	if (strcmp(plugin, "UCX") != 0) {
		return NOT_FOUND;
	}
	*backend = malloc(1);
	return SUCCESS;
}

int nixl_capi_destroy_backend(void *backend) {
	free(backend);
	return SUCCESS;
}

int nixl_capi_create_opt_args(void **args) {
	*args = malloc(1);
	return SUCCESS;
}

int nixl_capi_destroy_opt_args(void *args) {
	free(args);
	return SUCCESS;
}

int nixl_capi_opt_args_add_backend(void *args, void *backend) {
	return backend != NULL ? SUCCESS : INVALID_PARAM;
}

// Memory and metadata: the metadata is the agent's name.

int nixl_capi_create_reg_dlist(int kind, struct list **list) {
	*list = calloc(1, sizeof **list);
	return kind == 0 ? SUCCESS : INVALID_PARAM;
}

int nixl_capi_destroy_reg_dlist(struct list *list) {
	free(list->regions);
	free(list);
	return SUCCESS;
}

int nixl_capi_reg_dlist_add_desc(struct list *list, uintptr_t addr, size_t len, uint64_t dev, const void *meta,
				 size_t meta_len) {
	return len != 0 && add(list, addr, len) ? SUCCESS : INVALID_PARAM;
}

int nixl_capi_register_mem(struct agent *agent, struct list *list, void *args) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	if (args == NULL || strncmp(agent->name, "full", 4) == 0) {
		return BACKEND;
	}
	for (size_t i = 0; i < list->count; i++) {
		add(&agent->memory, list->regions[i].addr, list->regions[i].len);
	}
	return SUCCESS;
}

int nixl_capi_deregister_mem(struct agent *agent, struct list *list, void *args) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	for (size_t i = 0; i < agent->memory.count; i++) {
		if (list->count == 1 && agent->memory.regions[i].addr == list->regions[0].addr) {
			agent->memory.regions[i] = agent->memory.regions[--agent->memory.count];
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

int nixl_capi_get_local_md(struct agent *agent, void **data, size_t *len) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	*len = strlen(agent->name);
	*data = strdup(agent->name);
	return SUCCESS;
}

int nixl_capi_load_remote_md(struct agent *agent, const void *data, size_t len, char **name) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	if (memchr(data, '!', len) != NULL) {
		return BACKEND;
	}
	for (int i = 0; i < MANY; i++) {
		if (agent->peers[i] == NULL) {
			agent->peers[i] = strndup(data, len);
			*name = strndup(data, len);
			return SUCCESS;
		}
	}
	return BACKEND;
}

static bool knows(const struct agent *agent, const char *peer) {
	for (int i = 0; i < MANY; i++) {
		if (agent->peers[i] != NULL && strcmp(agent->peers[i], peer) == 0) {
			return true;
		}
	}
	return false;
}

int nixl_capi_invalidate_remote_md(struct agent *agent, const char *peer) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	for (int i = 0; i < MANY; i++) {
		if (agent->peers[i] != NULL && strcmp(agent->peers[i], peer) == 0) {
			agent->peers[i] = NULL;
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

// Transfers. A peer with the prefix "slow" is done at the 1,000th poll, with "never" not
// at all; "reset" fails at the post and "breaks" at the third poll.

int nixl_capi_create_xfer_dlist(int kind, struct list **list) {
	return nixl_capi_create_reg_dlist(kind, list);
}

int nixl_capi_destroy_xfer_dlist(struct list *list) {
	return nixl_capi_destroy_reg_dlist(list);
}

int nixl_capi_xfer_dlist_add_desc(struct list *list, uintptr_t addr, size_t len, uint64_t dev) {
	return len != 0 && add(list, addr, len) ? SUCCESS : INVALID_PARAM;
}

int nixl_capi_create_xfer_req(struct agent *agent, int op, struct list *local, struct list *remote, const char *peer,
			      struct request **request, void *args) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	struct agent *other = find(peer);
	if (args == NULL || !knows(agent, peer) || other == NULL || local->count != remote->count) {
		return BACKEND;
	}
	for (size_t i = 0; i < local->count; i++) {
		if (local->regions[i].len != remote->regions[i].len || !contains(&agent->memory, local->regions[i]) ||
		    !contains(&other->memory, remote->regions[i])) {
			return BACKEND;
		}
	}
	*request = calloc(1, sizeof **request);
	**request = (struct request){
		.op = op, .status = IN_PROGRESS, .local = copy_list(local), .remote = copy_list(remote), .peer = strdup(peer)};
	return SUCCESS;
}

static int finish(struct request *r) {
	for (size_t i = 0; i < r->local.count; i++) {
		void *ours = (void *)r->local.regions[i].addr, *theirs = (void *)r->remote.regions[i].addr;
		memcpy(r->op == 0 ? ours : theirs, r->op == 0 ? theirs : ours, r->local.regions[i].len);
	}
	return SUCCESS;
}

int nixl_capi_post_xfer_req(struct agent *agent, struct request *r, void *args) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	if (strncmp(r->peer, "reset", 5) == 0) {
		r->status = BACKEND;
	} else if (strncmp(r->peer, "slow", 4) != 0 && strncmp(r->peer, "never", 5) != 0 &&
		   strncmp(r->peer, "breaks", 6) != 0) {
		r->status = finish(r);
	}
	return r->status;
}

int nixl_capi_get_xfer_status(struct agent *agent, struct request *r) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	r->polls++;
	if (r->status == IN_PROGRESS && strncmp(r->peer, "breaks", 6) == 0 && r->polls == 3) {
		r->status = BACKEND;
	}
	if (r->status == IN_PROGRESS && strncmp(r->peer, "slow", 4) == 0 && r->polls == 1000) {
		r->status = finish(r);
	}
	return r->status;
}

int nixl_capi_release_xfer_req(struct agent *agent, struct request *r) {
	return is_owner(agent) ? SUCCESS : INVALID_STATE;
}

int nixl_capi_destroy_xfer_req(struct request *r) {
	free(r);
	return SUCCESS;
}
