package routing

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
)

// SharedPredictions takes in the prompts that other routers have sent and that no event tells of
// yet: predictions beside those of this router. Without them, as many workers compute equal prompts
// as there are routers that get them at once: four routers near saturation have up to four times
// the mean time to first token.
//
// A prompt ends shortly after its first byte, when each router has read the events that tell of
// it, or with its router.
type SharedPredictions struct{ t *inFlight }

// PromptID names a prompt: its router and its number there.
type PromptID struct {
	Owner          string // of the router's token; "" of all that have the cluster's secret
	Router, Number uint64
}

const (
	// maxShared bounds the prompts of other routers without a first byte.
	maxShared = 512
	// A sent prompt counts for sentFor: its router tells when the first byte has come.
	sentFor = time.Minute
	// sharedScope has chains of fingerprints in place of block hashes.
	sharedScope radix.Scope = 1
)

// Add notes a prompt that another router has sent to a rank. It copies fingerprints.
func (x SharedPredictions) Add(now time.Time, id PromptID, rank *worker.Rank, fingerprints []uint32) {
	if len(fingerprints) == 0 || len(fingerprints) > MaxFingerprints {
		return
	}
	t := x.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.others[id]; f != nil {
		t.dropLocked(f)
	}
	if t.shared.n >= maxShared {
		t.dropLocked(t.shared.oldestOfMost(id.Owner))
	}
	f := t.take()
	f.rank, f.since, f.other = rank, now, id
	t.shared.push(f)
	if t.others == nil {
		t.others = make(map[PromptID]*Prediction, maxShared)
	}
	t.others[id] = f
	t.shares.Store(int64(len(t.others)))
	t.chain = appendHashes(t.chain[:0], fingerprints)
	t.index.Predict(&f.blocks, radix.Worker(rank.Number()), sharedScope, t.chain)
	t.expireLocked(now)
}

// Done notes that a prompt is computed or given up.
func (x SharedPredictions) Done(now time.Time, id PromptID) {
	t := x.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.others[id]; f != nil && f.in == &t.shared { // most messages are about unknown prompts
		t.endLocked(f, now)
	}
}

// Forget drops the prompts of a router.
func (x SharedPredictions) Forget(router uint64) {
	t := x.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, f := range t.others {
		if id.Router == router {
			t.dropLocked(f)
		}
	}
}

// oldestOfMost returns the oldest prediction of the owner that has the most, the given one if it is
// among them: a router that tells without end drops its own.
func (l *list) oldestOfMost(most string) *Prediction {
	by := make(map[string]int)
	for f := l.first; f != nil; f = f.next {
		by[f.other.Owner]++
	}
	for owner, n := range by {
		if n > by[most] {
			most = owner
		}
	}
	f := l.first
	for f.other.Owner != most {
		f = f.next
	}
	return f
}

// sharedPrompt is the fingerprints of a prompt.
type sharedPrompt struct {
	fingerprints []uint32
	known        bool // since the choice began
}

// of returns the prompt's fingerprints, which stay valid until the next choice.
func (m *sharedPrompt) of(model string, p *Prompt) []uint32 {
	if !m.known {
		m.fingerprints, m.known = appendFingerprints(m.fingerprints[:0], model, p), true
	}
	return m.fingerprints
}

// matchShared adds the predictions of other routers to m.
func (x *matcher) matchShared(m *indexMatch, fingerprints []uint32, p *Prompt, block int) {
	m.shared = appendHashes(m.shared[:0], fingerprints)
	m.found = x.index.MatchPredicted(m.found[:0], sharedScope, m.shared)
	for _, o := range m.found {
		m.others = roomFor(m.others, o.Worker)
		m.others[o.Worker] = overlap{tokens: sharedTokens(int(o.Blocks), len(fingerprints), len(p.Tokens)), block: block}
	}
}

func appendHashes(dst []radix.Hash, fingerprints []uint32) []radix.Hash {
	for _, f := range fingerprints {
		dst = append(dst, radix.Hash(f))
	}
	return dst
}
