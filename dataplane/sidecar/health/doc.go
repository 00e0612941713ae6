// Package health turns the facts of a GPU into its fitness for requests: a health state, a
// weight, and whether it may take tensor-parallel work.
//
// [Evaluate] is pure: facts in, reasons out, each with its source in a comment. A [Tracker] adds
// the rules that need a history: rising counters, links that were up before, GPUs that are gone,
// and hysteresis. A reason counts at once where a delay costs requests (a lost GPU), and after
// some seconds where it may be a glitch (a throttled GPU). It stays until it has been absent for
// 30 s, so a GPU at a threshold does not flap.
//
// Package routing multiplies a rank's speed by the Weight, excludes ranks with a Dead GPU, gives
// ranks with a Draining GPU no new requests, and gives no tensor-parallel work to a rank with a
// GPU without TP.
//
// # Sources
//
// XID catalogue: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Memory
// errors, row remapping and recovery actions:
// https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt. Clock event reasons, fabric health:
// nvml.h of API version 13. Numbers without a source are marked as ours.
//
// # Concurrency
//
// A Tracker belongs to one goroutine. It has no clock: time is passed in.
//
// # Ownership
//
// Results belong to the caller, and do not change later.
package health
