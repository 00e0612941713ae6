// Package nvml reads facts about the GPUs of this machine from NVIDIA's driver: memory, use, NVLink. Facts only: what
// they mean for a choice is for others to say.
//
// The driver's library libnvidia-ml.so.1 is loaded with dlopen when it is first asked for, through NVIDIA/go-nvml, so
// the binary starts on machines without a driver; there, [Reader.Read] returns [ErrNoDriver], which is a state of the
// machine and not a failure of the program. In a build without cgo it always does.
//
// A call of a function that the loaded driver lacks would end the process, not return an error: go-nvml leaves the
// symbols to the loader, which gives up at the first call. So every call here is made only after the symbol was looked
// up, and what an older driver cannot tell is a [Field] that is not OK. For the same reason the binary does not start under
// LD_BIND_NOW=1.
//
// # Concurrency
//
// A [Reader] may be used from any goroutine; its calls into the driver are made one at a time and may take
// milliseconds, so none belongs on the path of a request.
//
// # Ownership
//
// What Read returns is the caller's. The library stays loaded after Close, until the process ends: the symbols that the
// loader has bound would dangle otherwise.
//
// # Errors
//
// [ErrNoDriver], [ErrClosed], and [*Error] with NVML's own code and words.
package nvml
