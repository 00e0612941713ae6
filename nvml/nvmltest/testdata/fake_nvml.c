// A stand-in for NVIDIA's libnvidia-ml.so.1. Types and values are those of nvml.h in go-nvml
// v0.13.3. Its answers are in the file that WARMPATH_NVMLTEST_STATE names at nvmlInit_v2; the
// file is mapped into memory, with the layout of the raw types in state.go.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	TIMEOUT = 10,
	GPU_IS_LOST = 15,
	ARGUMENT_VERSION_MISMATCH = 25,
	UNKNOWN = 999,
};

enum { MAX_GPUS = 16, MAX_LINKS = 18, MAX_FAILS = 32, MAX_EVENTS = 64, MAX_MIG = 7, MAX_PROCESSES = 16 };

typedef unsigned long long u64;

struct link {
	u64 up, version, remote, speed, sent, received, replays, recoveries, crc, recoveries_failed;
};

struct gpu {
	char uuid[96], name[96], bus[32];
	u64 lost;
	u64 total, used, reserved;
	u64 utilization, memory_utilization;
	u64 temperature, memory_temperature;
	u64 clock, clock_max, power, power_limit, throttle;
	u64 ecc[4]; // volatile corrected, uncorrected; aggregate corrected, uncorrected
	u64 rows_corrected, rows_uncorrected, rows_pending, rows_failed;
	u64 pages_single, pages_double, pages_pending;
	u64 recovery;
	u64 pcie_gen, pcie_gen_max, pcie_width, pcie_width_max, pcie_replays, pcie_sent, pcie_received;
	u64 fabric_state, fabric_status, fabric_mask, fabric_summary;
	u64 mig, mig_pending, mig_instances;
	u64 clock_memory, energy;
	u64 processes[MAX_PROCESSES]; // PIDs; 0 ends the list
	u64 links;
	struct link link[MAX_LINKS];
};

struct event {
	u64 gpu, type, data, instance;
};

struct state {
	u64 seq;   // odd while the test writes
	u64 calls; // counted here
	u64 head;  // events so far; the newest is event[(head - 1) % MAX_EVENTS]
	struct event event[MAX_EVENTS];
	u64 epoch; // another one means that the driver was reloaded
	u64 init, gpus, cuda;
	char version[80], hang[80];
	struct {
		char symbol[80];
		u64 code;
	} fail[MAX_FAILS];
	struct {
		u64 id, code;
	} field[MAX_FAILS];
	struct gpu gpu[MAX_GPUS];
};

static volatile struct state *shared;
static u64 ready; // the epoch of the last nvmlInit_v2 plus 1; 0 is not initialized

// A device handle is an address in this array, so it stays valid while the state changes. The
// second row holds MIG devices.
static char handles[2][MAX_GPUS * MAX_MIG];

// A wait polls for events every 10 ms. A longer period would delay faults measurably; a shorter
// one would cost the waiting process CPU, unlike a real driver's wait.
enum { NAP_MS = 10 };

static void nap(void) {
	struct timespec ms = {0, NAP_MS * 1000000};
	nanosleep(&ms, NULL);
}

// get copies a part of the state as it was between two writes of the test.
static void get(void *to, const volatile void *from, size_t size) {
	for (;;) {
		u64 before = __atomic_load_n(&shared->seq, __ATOMIC_ACQUIRE);
		if (before % 2 == 0) {
			memcpy(to, (const void *)from, size);
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
			if (__atomic_load_n(&shared->seq, __ATOMIC_RELAXED) == before) {
				return;
			}
		}
		sched_yield();
	}
}

static int hangs(const char *symbol) {
	char hang[sizeof shared->hang];
	get(hang, shared->hang, sizeof hang);
	return strcmp(hang, symbol) == 0;
}

// enter begins each function: it counts the call, and hangs or fails as the state demands.
static int enter(const char *symbol) {
	if (shared == NULL) {
		return UNINITIALIZED;
	}
	__atomic_fetch_add(&shared->calls, 1, __ATOMIC_RELAXED);
	while (hangs(symbol)) {
		nap();
	}
	for (int i = 0; i < MAX_FAILS; i++) {
		// Unlocked for speed: a torn name matches nothing.
		if (shared->fail[i].symbol[0] != 0 && strcmp((const char *)shared->fail[i].symbol, symbol) == 0) {
			return shared->fail[i].code;
		}
	}
	u64 epoch;
	get(&epoch, &shared->epoch, sizeof epoch);
	return ready == epoch + 1 ? SUCCESS : UNINITIALIZED;
}

#define ENTER                              \
	do {                               \
		int ret_ = enter(__func__); \
		if (ret_ != SUCCESS) {     \
			return ret_;       \
		}                          \
	} while (0)

// find resolves a GPU's handle.
static int find(const char *device, struct gpu *g) {
	u64 gpus;
	get(&gpus, &shared->gpus, sizeof gpus);
	if (device < handles[0] || device >= handles[0] + gpus) {
		return INVALID_ARGUMENT;
	}
	get(g, &shared->gpu[device - handles[0]], sizeof *g);
	return g->lost ? GPU_IS_LOST : SUCCESS;
}

// FIND is ENTER and find: g is the GPU afterwards.
#define FIND(device)                        \
	ENTER;                              \
	struct gpu g;                       \
	do {                                \
		int ret_ = find(device, &g); \
		if (ret_ != SUCCESS) {      \
			return ret_;        \
		}                           \
	} while (0)

static int copy(char *to, unsigned int size, const char *from) {
	snprintf(to, size, "%s", from);
	return SUCCESS;
}

#ifndef NOT_NVML
int nvmlInit_v2(void) {
	const char *path = getenv("WARMPATH_NVMLTEST_STATE");
	int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		return UNKNOWN;
	}
	void *map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		return UNKNOWN;
	}
	// The old mapping stays: another thread may be in it.
	shared = map;
	int ret = enter(__func__);
	if (ret != SUCCESS && ret != UNINITIALIZED) {
		return ret;
	}
	u64 init, epoch;
	get(&init, &shared->init, sizeof init);
	get(&epoch, &shared->epoch, sizeof epoch);
	ready = init == SUCCESS ? epoch + 1 : 0;
	return init;
}
#endif

int nvmlShutdown(void) {
	ENTER;
	ready = 0;
	return SUCCESS;
}

const char *nvmlErrorString(int code) {
	switch (code) {
	case UNINITIALIZED:
		return "Uninitialized";
	case NOT_SUPPORTED:
		return "Not Supported";
	case 9:
		return "Driver Not Loaded";
	case GPU_IS_LOST:
		return "GPU is lost";
	case 16:
		return "GPU requires restart";
	case 18:
		return "Driver/library version mismatch";
	default:
		return "Unknown Error";
	}
}

int nvmlSystemGetDriverVersion(char *version, unsigned int size) {
	ENTER;
	char own[sizeof shared->version];
	get(own, shared->version, sizeof own);
	return copy(version, size, own);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
	ENTER;
	*version = shared->cuda;
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
	ENTER;
	*count = shared->gpus;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, char **device) {
	if (index >= MAX_GPUS) {
		return INVALID_ARGUMENT;
	}
	FIND(&handles[0][index]);
	*device = &handles[0][index];
	return SUCCESS;
}

int nvmlDeviceGetName(const char *device, char *name, unsigned int size) {
	FIND(device);
	return copy(name, size, g.name);
}

// MIG devices are named after their GPU.
static int mig(const char *device) {
	return device >= handles[1] && device < handles[1] + sizeof handles[1];
}

int nvmlDeviceGetUUID(const char *device, char *uuid, unsigned int size) {
	if (mig(device)) {
		long at = device - handles[1];
		snprintf(uuid, size, "MIG-%ld-%ld", at / MAX_MIG, at % MAX_MIG);
		return SUCCESS;
	}
	FIND(device);
	return copy(uuid, size, g.uuid);
}

struct pci {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char text[32];
};

int nvmlDeviceGetPciInfo_v3(const char *device, struct pci *pci) {
	FIND(device);
	memset(pci, 0, sizeof *pci);
	return copy(pci->text, sizeof pci->text, g.bus);
}

struct utilization {
	unsigned int gpu, memory;
};

int nvmlDeviceGetUtilizationRates(const char *device, struct utilization *u) {
	FIND(device);
	u->gpu = g.utilization;
	u->memory = g.memory_utilization;
	return SUCCESS;
}

struct memory {
	u64 total, free, used;
};

// The first version counts the driver's share as used.
int nvmlDeviceGetMemoryInfo(const char *device, struct memory *m) {
	FIND(device);
	m->total = g.total;
	m->used = g.used + g.reserved;
	m->free = m->total - m->used;
	return SUCCESS;
}

struct memory_v2 {
	unsigned int version;
	u64 total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(const char *device, struct memory_v2 *m) {
	if (m->version != (sizeof *m | 2u << 24)) {
		return ARGUMENT_VERSION_MISMATCH;
	}
	if (mig(device)) {
		m->total = 10ull << 30;
		m->reserved = 0;
		m->used = 1ull << 30;
		m->free = m->total - m->used;
		return SUCCESS;
	}
	FIND(device);
	m->total = g.total;
	m->reserved = g.reserved;
	m->used = g.used;
	m->free = m->total - m->used - m->reserved;
	return SUCCESS;
}

struct temperature {
	unsigned int version;
	int sensor, celsius;
};

int nvmlDeviceGetTemperatureV(const char *device, struct temperature *t) {
	if (t->version != (sizeof *t | 1u << 24)) {
		return ARGUMENT_VERSION_MISMATCH;
	}
	FIND(device);
	t->celsius = g.temperature;
	return SUCCESS;
}

// Functions that answer with one number of a GPU.
#define NUMBER(symbol, field)                                        \
	int symbol(const char *device, unsigned int *v) {            \
		FIND(device);                                        \
		*v = g.field;                                        \
		return SUCCESS;                                      \
	}

NUMBER(nvmlDeviceGetPowerUsage, power)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, power_limit)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, pcie_gen)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, pcie_gen_max)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, pcie_width)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, pcie_width_max)

// Functions that answer with one number, chosen by an argument.
#define CHOSEN(symbol, field)                                             \
	int symbol(const char *device, int which, unsigned int *v) {      \
		FIND(device);                                             \
		(void)which;                                              \
		*v = g.field;                                             \
		return SUCCESS;                                           \
	}

CHOSEN(nvmlDeviceGetTemperature, temperature)
CHOSEN(nvmlDeviceGetMaxClockInfo, clock_max)

int nvmlDeviceGetClockInfo(const char *device, int which, unsigned int *mhz) {
	FIND(device);
	*mhz = which == 2 ? g.clock_memory : g.clock; // NVML_CLOCK_MEM
	return SUCCESS;
}

struct process {
	unsigned int pid;
	u64 memory;
	unsigned int gpu_instance, compute_instance;
};

// The memory is divided evenly.
int nvmlDeviceGetComputeRunningProcesses_v3(const char *device, unsigned int *count, struct process *list) {
	FIND(device);
	unsigned int n = 0;
	while (n < MAX_PROCESSES && g.processes[n] != 0) {
		n++;
	}
	if (*count < n) {
		*count = n;
		return INSUFFICIENT_SIZE;
	}
	*count = n;
	for (unsigned int i = 0; i < n; i++) {
		list[i] = (struct process){g.processes[i], g.used / n, 0xFFFFFFFF, 0xFFFFFFFF};
	}
	return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(const char *device, u64 *reasons) {
	FIND(device);
	*reasons = g.throttle;
	return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(const char *device, u64 *reasons) {
	FIND(device);
	*reasons = g.throttle;
	return SUCCESS;
}

// LINK resolves a link of a GPU.
#define LINK(device, index)                \
	FIND(device);                      \
	if (index >= g.links) {            \
		return INVALID_ARGUMENT;   \
	}                                  \
	struct link *l = &g.link[index]

int nvmlDeviceGetNvLinkState(const char *device, unsigned int link, unsigned int *active) {
	LINK(device, link);
	*active = l->up;
	return SUCCESS;
}

int nvmlDeviceGetNvLinkVersion(const char *device, unsigned int link, unsigned int *version) {
	LINK(device, link);
	*version = l->version;
	return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(const char *device, unsigned int link, unsigned int *type) {
	LINK(device, link);
	*type = l->remote;
	return SUCCESS;
}

struct field {
	unsigned int id, scope;
	long long timestamp, latency;
	int type, ret;
	union {
		double d;
		int i;
		unsigned int u;
		u64 ull;
	} value;
};

enum { DOUBLE = 0, UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };

// The values of real drivers are of these types, with counters wide and the rest narrow.
static void wide(struct field *f, u64 v) {
	f->type = UNSIGNED_LONG_LONG;
	f->value.ull = v;
}

static void narrow(struct field *f, u64 v) {
	f->type = UNSIGNED_INT;
	f->value.ull = 0xAAAAAAAAAAAAAAAA; // a reader that looks at all eight bytes is wrong
	f->value.u = v;
}

static int link_field(struct field *f, const struct gpu *g) {
	if (f->scope >= g->links) {
		return INVALID_ARGUMENT;
	}
	const struct link *l = &g->link[f->scope];
	switch (f->id) {
	case 138: wide(f, l->sent >> 10); return SUCCESS;
	case 139: wide(f, l->received >> 10); return SUCCESS;
	case 161: wide(f, l->replays); return SUCCESS;
	case 162: wide(f, l->recoveries); return SUCCESS;
	case 163: wide(f, l->crc); return SUCCESS;
	case 164: narrow(f, l->up ? l->speed : 0); return SUCCESS;
	case 214: wide(f, l->recoveries_failed); return SUCCESS;
	case 215: wide(f, l->recoveries); return SUCCESS;
	default: return NOT_SUPPORTED;
	}
}

static int gpu_field(struct field *f, const struct gpu *g) {
	switch (f->id) {
	case 3: wide(f, g->ecc[0]); return SUCCESS;
	case 4: wide(f, g->ecc[1]); return SUCCESS;
	case 5: wide(f, g->ecc[2]); return SUCCESS;
	case 6: wide(f, g->ecc[3]); return SUCCESS;
	case 29: narrow(f, g->pages_single); return SUCCESS;
	case 30: narrow(f, g->pages_double); return SUCCESS;
	case 31: narrow(f, g->pages_pending); return SUCCESS;
	case 82: narrow(f, g->memory_temperature); return SUCCESS;
	case 83: wide(f, g->energy); return SUCCESS;
	case 94: narrow(f, g->pcie_replays); return SUCCESS;
	case 142: narrow(f, g->rows_corrected); return SUCCESS;
	case 143: narrow(f, g->rows_uncorrected); return SUCCESS;
	case 144: narrow(f, g->rows_pending); return SUCCESS;
	case 145: narrow(f, g->rows_failed); return SUCCESS;
	case 197: wide(f, g->pcie_sent); return SUCCESS;
	case 198: wide(f, g->pcie_received); return SUCCESS;
	case 230: narrow(f, g->recovery); return SUCCESS;
	default: return link_field(f, g);
	}
}

int nvmlDeviceGetFieldValues(const char *device, int count, struct field *values) {
	FIND(device);
	for (int i = 0; i < count; i++) {
		values[i].ret = gpu_field(&values[i], &g);
		for (int j = 0; j < MAX_FAILS; j++) {
			if (shared->field[j].id != 0 && shared->field[j].id == values[i].id) {
				values[i].ret = shared->field[j].code;
			}
		}
	}
	return SUCCESS;
}

struct fabric {
	unsigned int version;
	unsigned char cluster[16];
	unsigned int status, clique;
	unsigned char state;
	unsigned int mask;
	unsigned char summary; // since version 3
};

int nvmlDeviceGetGpuFabricInfoV(const char *device, struct fabric *f) {
	int second = f->version == (36u | 2u << 24);
	if (!second && f->version != (sizeof *f | 3u << 24)) {
		return ARGUMENT_VERSION_MISMATCH;
	}
#ifdef FABRIC_V2
	if (!second) {
		return ARGUMENT_VERSION_MISMATCH;
	}
#endif
	FIND(device);
	memset(f->cluster, 0xC1, sizeof f->cluster);
	f->status = g.fabric_status;
	f->state = g.fabric_state;
	f->mask = g.fabric_mask;
	if (!second) {
		f->summary = g.fabric_summary;
	}
	return SUCCESS;
}

int nvmlDeviceGetMigMode(const char *device, unsigned int *current, unsigned int *pending) {
	FIND(device);
	*current = g.mig;
	*pending = g.mig_pending;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(const char *device, unsigned int *count) {
	FIND(device);
	*count = MAX_MIG;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const char *device, unsigned int index, char **instance) {
	FIND(device);
	if (index >= g.mig_instances) {
		return NOT_FOUND;
	}
	*instance = &handles[1][(device - handles[0]) * MAX_MIG + index];
	return SUCCESS;
}

struct event_set {
	u64 seen;
	u64 types[MAX_GPUS];
};

int nvmlEventSetCreate(struct event_set **set) {
	ENTER;
	*set = calloc(1, sizeof **set);
	(*set)->seen = shared->head;
	return SUCCESS;
}

int nvmlEventSetFree(struct event_set *set) {
	free(set);
	return SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(const char *device, u64 *types) {
	FIND(device);
	*types = 0xFFFF;
	return SUCCESS;
}

int nvmlDeviceRegisterEvents(const char *device, u64 types, struct event_set *set) {
	FIND(device);
	set->types[device - handles[0]] |= types;
	return SUCCESS;
}

struct event_data {
	char *device;
	u64 type, data;
	unsigned int gpu_instance, compute_instance;
};

// next takes an event of a registered GPU; a lost one spoils the set, as in the real library.
static int next(struct event_set *set, struct event_data *data) {
	while (set->seen < shared->head) {
		struct event e;
		get(&e, &shared->event[set->seen % MAX_EVENTS], sizeof e);
		set->seen++;
		if (e.gpu < MAX_GPUS && set->types[e.gpu] & e.type) {
			*data = (struct event_data){&handles[0][e.gpu], e.type, e.data, e.instance, 0xFFFFFFFF};
			return SUCCESS;
		}
	}
	for (u64 i = 0; i < shared->gpus; i++) {
		if (set->types[i] != 0 && shared->gpu[i].lost) {
			return GPU_IS_LOST;
		}
	}
	return TIMEOUT;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned int timeout) {
	for (unsigned int waited = 0;; waited += NAP_MS) {
		ENTER;
		int ret = next(set, data);
		if (ret != TIMEOUT || waited >= timeout) {
			return ret;
		}
		nap();
	}
}
