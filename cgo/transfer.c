//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include "abi.h"

#include <time.h>

static int wp_list(wp_nixl *lib, int kind, const wp_region *regions, size_t count, void **list) {
	int status = lib->create_xfer_dlist(kind, list);
	for (size_t i = 0; status == NIXL_DONE && i < count; i++) {
		status = lib->xfer_dlist_add_desc(*list, regions[i].addr, regions[i].len, regions[i].dev);
	}
	return status;
}

// Options of one request: the agent's backend, and the message for the peer where there is one.
static int wp_job_args(wp_nixl *lib, wp_agent *agent, const wp_job *job, void **args) {
	int status = lib->create_opt_args(args);
	if (status == NIXL_DONE) {
		status = lib->opt_args_add_backend(*args, agent->backend);
	}
	if (status == NIXL_DONE && job->note != NULL) {
		status = lib->opt_args_set_notif_msg(*args, job->note, job->note_len);
		if (status == NIXL_DONE) {
			status = lib->opt_args_set_has_notif(*args, true); // a message that is only set is not sent
		}
	}
	return status;
}

int wp_request_create(wp_nixl *lib, wp_agent *agent, const wp_job *job, const wp_region *local, const wp_region *remote, void **request) {
	void *mine = NULL, *theirs = NULL, *args = NULL;
	int status = wp_list(lib, job->local_kind, local, job->count, &mine);
	if (status == NIXL_DONE) {
		status = wp_list(lib, job->remote_kind, remote, job->count, &theirs);
	}
	if (status == NIXL_DONE) {
		status = wp_job_args(lib, agent, job, &args);
	}
	if (status == NIXL_DONE) {
		status = lib->create_xfer_req(agent->agent, job->op, mine, theirs, job->peer, request, args);
	}
	if (args != NULL) {
		lib->destroy_opt_args(args);
	}
	if (theirs != NULL) {
		lib->destroy_xfer_dlist(theirs);
	}
	if (mine != NULL) {
		lib->destroy_xfer_dlist(mine);
	}
	return status;
}

int wp_request_post(wp_nixl *lib, wp_agent *agent, void *request) {
	// The options of the request's creation hold here too; giving others would replace its message.
	return lib->post_xfer_req(agent->agent, request, NULL);
}

int wp_request_status(wp_nixl *lib, wp_agent *agent, void *request) {
	return lib->get_xfer_status(agent->agent, request);
}

int wp_request_release(wp_nixl *lib, wp_agent *agent, void *request) {
	int status = lib->release_xfer_req(agent->agent, request);
	return status != NIXL_DONE ? status : lib->destroy_xfer_req(request);
}

int wp_request_telemetry(wp_nixl *lib, wp_agent *agent, void *request, wp_telemetry *telemetry) {
	struct nixl_telemetry t = {0};
	int status = lib->get_xfer_telemetry(agent->agent, request, &t);
	*telemetry = (wp_telemetry){t.start_us, t.post_us, t.transfer_us, t.bytes, t.descriptors};
	return status;
}

static uint64_t wp_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t wp_look(wp_nixl *lib, wp_agent *agent, void *const *requests, int *statuses, size_t count) {
	size_t ended = 0;
	for (size_t i = 0; i < count; i++) {
		statuses[i] = lib->get_xfer_status(agent->agent, requests[i]);
		ended += statuses[i] != NIXL_IN_PROGRESS;
	}
	return ended;
}

enum {
	// A small transfer within a machine ends in a few microseconds. Spinning longer takes the core that the peer needs:
	// on two cores it makes 64 bytes take milliseconds.
	WP_SPINS = 200,
	WP_NAP_NS = 20000,
	// What lasts longer than 5 ms is not hurried by looking often: 200 us are then at most 4 % of it.
	WP_LONG_NS = 5000000,
	WP_LONG_NAP_NS = 200000,
};

size_t wp_wait(wp_nixl *lib, wp_agent *agent, void *const *requests, int *statuses, size_t count, uint64_t timeout_ns, const uint32_t *wake) {
	uint64_t begin = wp_now();
	for (unsigned turn = 0;; turn++) {
		size_t ended = wp_look(lib, agent, requests, statuses, count);
		if (ended != 0 || __atomic_load_n(wake, __ATOMIC_ACQUIRE) != 0) {
			return ended;
		}
		uint64_t waited = wp_now() - begin;
		if (waited >= timeout_ns) {
			return 0;
		}
		if (turn >= WP_SPINS) {
			struct timespec nap = {.tv_nsec = waited < WP_LONG_NS ? WP_NAP_NS : WP_LONG_NAP_NS};
			nanosleep(&nap, NULL);
		}
	}
}
