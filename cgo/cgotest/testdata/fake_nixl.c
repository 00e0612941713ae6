// A stand-in for NIXL's libnixl_capi.so: the functions that package cgo resolves, with the signatures of nixl-sys 1.5.1.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct agent {
	pthread_t owner;
};

static const char *const plugins[] = {"UCX", "POSIX"};

enum { SUCCESS = 0, INVALID_PARAM = -1, BACKEND = -2, INVALID_STATE = -3 };

int nixl_capi_create_agent(const char *name, struct agent **agent) {
	if (name == NULL || name[0] == 0 || agent == NULL) {
		return INVALID_PARAM;
	}
	if (strcmp(name, "refuse") == 0) {
		return BACKEND;
	}
	*agent = malloc(sizeof **agent);
	(*agent)->owner = pthread_self();
	return SUCCESS;
}

static int is_owner(const struct agent *agent) {
	return pthread_equal(agent->owner, pthread_self());
}

int nixl_capi_destroy_agent(struct agent *agent) {
	if (!is_owner(agent)) {
		return INVALID_STATE;
	}
	free(agent);
	return SUCCESS;
}

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
