// Package health says what the facts about a GPU mean for the choice of it: whether requests should go there, how many,
// and whether it can be one of several GPUs that compute one request.
//
// [Judge] is pure: facts in, reasons out, each with its source in a comment. A [Tracker] adds what needs a memory:
// counters that rise, links that were up before, GPUs that are gone, and hysteresis. A reason counts at once where
// waiting costs requests (a lost GPU) and after some seconds where it may be a glitch (a throttled one); it stays until
// it has been absent for 30 s, so a GPU at a threshold does not flap.
//
// Who chooses (package route) multiplies a rank's speed by the Weight, leaves out who is Dead, gives who is Draining no new requests, and
// no tensor-parallel work to a rank that has a GPU without TP.
//
// # Sources
//
// XID catalogue: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Memory errors, row remapping and
// recovery actions: https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt. Clock event reasons, fabric health: nvml.h of
// API version 13. Where NVIDIA gives no number, it is ours and says so.
//
// # Concurrency
//
// A Tracker belongs to one goroutine. It has no clock: time is passed in.
//
// # Ownership
//
// Results are the caller's, and are not changed later.
package health
