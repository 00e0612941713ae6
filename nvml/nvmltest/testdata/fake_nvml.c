// A stand-in for NVIDIA's libnvidia-ml.so.1. Types and values are those of nvml.h as go-nvml v0.13.3 carries it; what it
// answers stands in the file that WARMPATH_NVMLTEST_STATE names, see State.text in driver.go, and is read anew at each call.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999 };
enum { MAX_GPUS = 16 };

typedef unsigned long long u64;

struct gpu {
	int lost;
	u64 total, used, reserved;
	unsigned int utilization;
	unsigned int links, links_down;
	char uuid[96], name[96];
};

struct state {
	int init;
	unsigned int gpus;
	int cuda;
	char version[80];
	struct gpu gpu[MAX_GPUS];
};

// A device handle is an address in this array: a handle stays good while the state changes.
static char handles[MAX_GPUS];

static int load(struct state *s) {
	memset(s, 0, sizeof *s);
	const char *path = getenv("WARMPATH_NVMLTEST_STATE");
	FILE *f = path == NULL ? NULL : fopen(path, "r");
	if (f == NULL) {
		return UNKNOWN;
	}
	int ok = fscanf(f, "%d\t%u\t%d\t%79[^\n]", &s->init, &s->gpus, &s->cuda, s->version) == 4;
	for (unsigned int i = 0; ok && i < s->gpus && i < MAX_GPUS; i++) {
		struct gpu *g = &s->gpu[i];
		ok = fscanf(f, " %d\t%llu\t%llu\t%llu\t%u\t%u\t%u\t%95[^\t]\t%95[^\n]", &g->lost, &g->total, &g->used,
			    &g->reserved, &g->utilization, &g->links, &g->links_down, g->uuid, g->name) == 9;
	}
	fclose(f);
	return ok ? SUCCESS : UNKNOWN;
}

static int find(const char *device, struct state *s, struct gpu **g) {
	int ret = load(s);
	if (ret != SUCCESS) {
		return ret;
	}
	if (device < handles || device >= handles + s->gpus) {
		return INVALID_ARGUMENT;
	}
	*g = &s->gpu[device - handles];
	return (*g)->lost ? GPU_IS_LOST : SUCCESS;
}

static int copy(char *to, unsigned int size, const char *from) {
	snprintf(to, size, "%s", from);
	return SUCCESS;
}

#ifndef NOT_NVML
int nvmlInit_v2(void) {
	struct state s;
	int ret = load(&s);
	return ret != SUCCESS ? ret : s.init;
}
#endif

int nvmlShutdown(void) {
	return SUCCESS;
}

const char *nvmlErrorString(int code) {
	switch (code) {
	case 9:
		return "Driver Not Loaded";
	case GPU_IS_LOST:
		return "GPU is lost";
	case 18:
		return "Driver/library version mismatch";
	default:
		return "Unknown Error";
	}
}

int nvmlSystemGetDriverVersion(char *version, unsigned int size) {
	struct state s;
	int ret = load(&s);
	return ret != SUCCESS ? ret : copy(version, size, s.version);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
	struct state s;
	int ret = load(&s);
	*version = s.cuda;
	return ret;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
	struct state s;
	int ret = load(&s);
	*count = s.gpus;
	return ret;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, char **device) {
	struct state s;
	struct gpu *g;
	if (index >= MAX_GPUS) {
		return INVALID_ARGUMENT;
	}
	*device = &handles[index];
	return find(*device, &s, &g);
}

int nvmlDeviceGetUUID(const char *device, char *uuid, unsigned int size) {
	struct state s;
	struct gpu *g;
	int ret = find(device, &s, &g);
	return ret != SUCCESS ? ret : copy(uuid, size, g->uuid);
}

int nvmlDeviceGetName(const char *device, char *name, unsigned int size) {
	struct state s;
	struct gpu *g;
	int ret = find(device, &s, &g);
	return ret != SUCCESS ? ret : copy(name, size, g->name);
}

struct utilization {
	unsigned int gpu, memory;
};

int nvmlDeviceGetUtilizationRates(const char *device, struct utilization *u) {
	struct state s;
	struct gpu *g;
	int ret = find(device, &s, &g);
	if (ret == SUCCESS) {
		u->gpu = g->utilization;
		u->memory = 0;
	}
	return ret;
}

struct memory {
	u64 total, free, used;
};

// The first version counts the driver's share as used.
int nvmlDeviceGetMemoryInfo(const char *device, struct memory *m) {
	struct state s;
	struct gpu *g;
	int ret = find(device, &s, &g);
	if (ret == SUCCESS) {
		m->total = g->total;
		m->used = g->used + g->reserved;
		m->free = m->total - m->used;
	}
	return ret;
}

#ifndef OLD_DRIVER
struct memory_v2 {
	unsigned int version;
	u64 total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(const char *device, struct memory_v2 *m) {
	struct state s;
	struct gpu *g;
	if (m->version != (sizeof *m | 2u << 24)) {
		return ARGUMENT_VERSION_MISMATCH;
	}
	int ret = find(device, &s, &g);
	if (ret == SUCCESS) {
		m->total = g->total;
		m->reserved = g->reserved;
		m->used = g->used;
		m->free = m->total - m->used - m->reserved;
	}
	return ret;
}

int nvmlDeviceGetNvLinkState(const char *device, unsigned int link, unsigned int *active) {
	struct state s;
	struct gpu *g;
	int ret = find(device, &s, &g);
	if (ret != SUCCESS) {
		return ret;
	}
	if (link >= g->links) {
		return INVALID_ARGUMENT;
	}
	*active = link < g->links - g->links_down;
	return SUCCESS;
}
#endif
