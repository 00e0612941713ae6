//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include "abi.h"

#include <time.h>

static int wp_list(wp_nixl *lib, const wp_region *regions, size_t count, void **list) {
	int status = lib->create_xfer_dlist(NIXL_HOST_MEMORY, list);
	for (size_t i = 0; status == NIXL_DONE && i < count; i++) {
		status = lib->xfer_dlist_add_desc(*list, regions[i].addr, regions[i].len, 0);
	}
	return status;
}

int wp_request_create(wp_nixl *lib, wp_agent *agent, int op, const char *peer, const wp_region *local,
		      const wp_region *remote, size_t count, void **request) {
	void *ours = NULL, *theirs = NULL;
	int status = wp_list(lib, local, count, &ours);
	if (status == NIXL_DONE) {
		status = wp_list(lib, remote, count, &theirs);
	}
	if (status == NIXL_DONE) {
		status = lib->create_xfer_req(agent->agent, op, ours, theirs, peer, request, agent->args);
	}
	if (theirs != NULL) {
		lib->destroy_xfer_dlist(theirs);
	}
	if (ours != NULL) {
		lib->destroy_xfer_dlist(ours);
	}
	return status;
}

int wp_request_post(wp_nixl *lib, wp_agent *agent, void *request) {
	return lib->post_xfer_req(agent->agent, request, NULL); // the options of the creation hold
}

int wp_request_release(wp_nixl *lib, wp_agent *agent, void *request) {
	int status = lib->release_xfer_req(agent->agent, request);
	return status != NIXL_DONE ? status : lib->destroy_xfer_req(request);
}

static uint64_t wp_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t wp_poll(wp_nixl *lib, wp_agent *agent, void *const *requests, int *statuses, size_t count) {
	size_t ended = 0;
	for (size_t i = 0; i < count; i++) {
		statuses[i] = lib->get_xfer_status(agent->agent, requests[i]);
		ended += statuses[i] != NIXL_IN_PROGRESS;
	}
	return ended;
}

enum {
	// A small transfer within a machine ends in a few microseconds. A longer spin takes the
	// core that the peer needs: on two cores it makes 64 bytes take milliseconds.
	WP_SPINS = 200,
	WP_SLEEP_NS = 20000,
	// Polls after 5 ms are 200 us apart, which delays the end by at most 4 %.
	WP_LONG_NS = 5000000,
	WP_LONG_SLEEP_NS = 200000,
};

size_t wp_wait(wp_nixl *lib, wp_agent *agent, void *const *requests, int *statuses, size_t count,
	       uint64_t timeout_ns, const uint32_t *wake) {
	uint64_t begin = wp_now();
	for (unsigned turn = 0;; turn++) {
		size_t ended = wp_poll(lib, agent, requests, statuses, count);
		if (ended != 0 || __atomic_load_n(wake, __ATOMIC_ACQUIRE) != 0) {
			return ended;
		}
		uint64_t waited = wp_now() - begin;
		if (waited >= timeout_ns) {
			return 0;
		}
		if (turn >= WP_SPINS) {
			struct timespec sleep = {.tv_nsec = waited < WP_LONG_NS ? WP_SLEEP_NS : WP_LONG_SLEEP_NS};
			nanosleep(&sleep, NULL);
		}
	}
}
