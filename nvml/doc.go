// Package nvml reads facts about this machine's GPUs from NVIDIA's driver: memory, utilization,
// temperature, clocks and their throttling, ECC, row remapping, XIDs as they happen, PCIe,
// NVLink, the NVSwitch fabric, MIG. It does not judge them: dataplane/sidecar/health
// does.
//
// A [Monitor] reads all facts periodically and keeps the newest [Snapshot]. A fact withheld by
// a driver, a GPU or a permission is an [Opt] that is not OK, and null in JSON.
//
// The driver's library libnvidia-ml.so.1 is loaded with dlopen at the first read, through
// NVIDIA/go-nvml, so the binary starts on machines without a driver. No fault of a driver ends
// the process: a missing library or kernel module, a build without cgo and a refusal are each a
// [State]. A lost GPU stays in the list with its Err and its last known name. After a reload
// the driver is initialized again within one read.
//
// go-nvml leaves its symbols to the loader, which ends the process at the first call of a
// function that the loaded driver lacks. So every symbol is looked up before its first call.
// For the same reason the binary does not start under LD_BIND_NOW=1.
//
// # Concurrency
//
// One goroutine on its own thread, the reader, makes all calls into the driver and owns the
// event set. Between two reads it waits for events in slices of one second: an XID triggers a
// read at once, and a shutdown waits for no event. Any goroutine may call [Monitor.Snapshot],
// which is one atomic load. A call that hangs in the driver hangs the reader alone: callers
// keep the last snapshot, whose At tells its age, [Monitor.Busy] names the call, and Run ends
// with [ErrHung]. Of several monitors in one process, one reads at a time.
//
// # Ownership
//
// A published Snapshot is never changed. The library stays loaded until the process ends,
// because the loader has bound its symbols.
//
// # Cost
//
// A read makes 37 calls for one GPU with 18 NVLinks and 275 for eight; once a minute it also
// reads the facts that hardly ever change. See BenchmarkRead.
//
// # Errors
//
// [ErrHung] and [ErrRunning] from Run; [*Error], with NVML's code and text, in a GPU.
package nvml
