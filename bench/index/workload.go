package index

import "github.com/warmpath/warmpath/radix"

// Kind is the kind of an [Op].
type Kind uint8

// The kinds of ops, as files number them.
const (
	Query  Kind = iota // a router looks the request's prompt up
	Store              // the worker stores blocks Start to End, behind block Start-1
	Remove             // the worker removes blocks Start to End, from the last to the first
	Clear              // the worker drops all blocks
)

// Op is one event of a worker, or a look-up.
type Op struct {
	Kind   Kind
	Worker uint16
	Req    uint32
	Start  uint32
	End    uint32
}

// Answer is the right answer for a request's prompt after the first Warm ops.
type Answer struct {
	Req   uint32
	Depth uint32 // the most leading blocks that any worker holds
	Sum   uint64 // over all workers, of leading blocks x (2 x worker + 1)
}

// Workload is the KV events and look-ups of a served trace.
type Workload struct {
	Workers  int
	IDBlocks int // blocks of one id of the trace; informational
	Warm     int // ops before the look-ups of Tests
	Pairs    int // (worker, block) held after Warm ops
	Distinct int // blocks held by any worker then

	Ops   []Op
	Tests []Answer

	first        []uint64     // where each request's blocks begin, and where the last one's end
	prompt       []uint32     // blocks of each request's prompt, before the decoded ones
	content      []radix.Hash // of all requests, in order
	engineHashes []uint64     // likewise
}

// Requests returns the number of requests.
func (w *Workload) Requests() int { return len(w.prompt) }

// Content returns the block hashes of a request: those of the prompt, then the decoded ones.
func (w *Workload) Content(req uint32) []radix.Hash {
	return w.content[w.first[req]:w.first[req+1]]
}

// EngineHashes returns the engine hashes of a request's blocks, which are the same on all
// workers.
func (w *Workload) EngineHashes(req uint32) []uint64 {
	return w.engineHashes[w.first[req]:w.first[req+1]]
}

// Prompt returns the block hashes of the prompt.
func (w *Workload) Prompt(req uint32) []radix.Hash { return w.Content(req)[:w.prompt[req]] }

// changedBlocks returns the number of blocks that ops store and remove.
func changedBlocks(ops []Op) (blocks int) {
	for _, o := range ops {
		if o.Kind == Store || o.Kind == Remove {
			blocks += int(o.End - o.Start)
		}
	}
	return blocks
}

// splitByWorker divides the changes among n writers; those of one worker stay in order.
func splitByWorker(ops []Op, n int) [][]Op {
	out := make([][]Op, n)
	for _, o := range ops {
		if o.Kind != Query {
			i := int(o.Worker) % n
			out[i] = append(out[i], o)
		}
	}
	return out
}
