package index

import "github.com/warmpath/warmpath/radix"

// Kind is what an [Op] does.
type Kind uint8

// The kinds of ops, as files number them.
const (
	Query  Kind = iota // a router asks for the request's prompt; nothing changes
	Store              // the worker stores blocks Start to End, behind block Start-1
	Remove             // the worker removes blocks Start to End, from the last to the first
	Clear              // the worker drops all it has
)

// Op is one event of a worker, or a look-up.
type Op struct {
	Kind   Kind
	Worker uint16
	Req    uint32
	Start  uint32
	End    uint32
}

// Truth is the right answer for the prompt of a request after the first Warm ops.
type Truth struct {
	Req   uint32
	Depth uint32 // the most leading blocks that any worker holds
	Sum   uint64 // over all workers, of leading blocks x (2 x worker + 1)
}

// Workload is what workers publish and routers ask while a trace of requests is served.
type Workload struct {
	Workers  int
	IDBlocks int // blocks of one id of the trace; for the record only
	Warm     int // ops before the look-ups of Tests
	Pairs    int // (worker, block) held after Warm ops
	Distinct int // blocks held by any worker then

	Ops   []Op
	Tests []Truth

	from    []uint64     // where each request's blocks begin, and where the last one's end
	prompt  []uint32     // blocks of each request's prompt; decoded ones follow
	content []radix.Hash // of all requests, one after the other
	names   []uint64     // engine hashes, likewise
}

// Requests returns the number of requests.
func (w *Workload) Requests() int { return len(w.prompt) }

// Content returns the hashes of all blocks of a request: those of the prompt and then the decoded ones.
func (w *Workload) Content(req uint32) []radix.Hash { return w.content[w.from[req]:w.from[req+1]] }

// Names returns the engine hashes of all blocks of a request, which are the same on every worker.
func (w *Workload) Names(req uint32) []uint64 { return w.names[w.from[req]:w.from[req+1]] }

// Prompt returns the hashes of the prompt's blocks.
func (w *Workload) Prompt(req uint32) []radix.Hash { return w.Content(req)[:w.prompt[req]] }

// changed returns how many blocks ops store and remove.
func changed(ops []Op) (blocks int) {
	for _, o := range ops {
		if o.Kind == Store || o.Kind == Remove {
			blocks += int(o.End - o.Start)
		}
	}
	return blocks
}

// split deals the ops out to n writers by worker, so that each worker's stay in order. Look-ups are left out.
func split(ops []Op, n int) [][]Op {
	out := make([][]Op, n)
	for _, o := range ops {
		if o.Kind != Query {
			i := int(o.Worker) % n
			out[i] = append(out[i], o)
		}
	}
	return out
}
