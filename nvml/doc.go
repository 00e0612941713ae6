// Package nvml reads facts about the GPUs of this machine from NVIDIA's driver: memory, use, temperature, clocks and what
// holds them back, ECC, row remapping, XIDs as they happen, PCIe, NVLink, the NVSwitch fabric, topology, MIG. Facts only:
// what they mean for a choice is for dataplane/sidecar/health to say.
//
// A [Monitor] reads all of it again and again and keeps the newest [Snapshot]. What a driver, a GPU or a permission
// withholds is an [Opt] that is not OK, and null in JSON.
//
// The driver's library libnvidia-ml.so.1 is loaded with dlopen when it is first asked for, through NVIDIA/go-nvml, so
// the binary starts on machines without a driver. Nothing that a driver does ends the process or is an error of the
// program: no library, no module, a build without cgo, a refusal are a [State]; a GPU that was lost is in the list with
// its Err and the name that it had; after a reload of the driver it is initialized again within one read.
//
// A call of a function that the loaded driver lacks would end the process, not return an error: go-nvml leaves the
// symbols to the loader, which gives up at the first call. So every call here is made only after the symbol was looked
// up. For the same reason the binary does not start under LD_BIND_NOW=1.
//
// # Concurrency
//
// All calls into the driver are made by one goroutine on a thread of its own, which also owns the set of events: between
// two reads it waits there, in slices of a second, so that an XID is followed by a read at once and a shutdown waits for no
// event. Any goroutine may call [Monitor.Snapshot], which is one atomic load. A call that hangs in the driver hangs the
// owner alone: readers keep the last snapshot, whose At tells its age, [Monitor.Busy] names the call, and Run ends with
// [ErrHung]. Of several monitors in one process, one reads at a time.
//
// # Ownership
//
// A published Snapshot is never changed. The library stays loaded until the process ends: the symbols that the loader has
// bound would dangle otherwise.
//
// # Cost
//
// A read makes 37 calls for one GPU with 18 NVLinks and 275 for eight; once a minute, what hardly ever changes costs
// more. See BenchmarkRead.
//
// # Errors
//
// [ErrHung] and [ErrRunning] from Run; [*Error], with NVML's own code and words, in a GPU.
package nvml
