package peers

import "sync"

// prompt is a prompt that a router has sent.
type prompt struct {
	number       uint64 // of its router
	rank         uint64 // Hash
	fingerprints []uint32
}

// news are this router's prompts and their ends that are not published yet.
type news struct {
	mu     sync.Mutex
	number uint64   // of the last prompt; guarded by mu, as is all below
	sent   []prompt // memory behind the end of the slice is used again
	done   []int64
}

const (
	// maxSent bounds the prompts of a message, which is below NATS's 1 MiB then: receivers keep no
	// more (routing.SharedPredictions).
	maxSent = 512
	// maxDone bounds the ends: without one, a prediction expires.
	maxDone = 1 << 16
)

// add notes a prompt that is sent, and returns its number.
func (n *news) add(rank uint64, fingerprints []uint32) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	if len(n.sent) < maxSent {
		n.sent = another(n.sent)
		p := &n.sent[len(n.sent)-1]
		p.number, p.rank, p.fingerprints = n.number, rank, append(p.fingerprints[:0], fingerprints...)
	}
	return n.number
}

// end notes that a prompt is computed or given up.
func (n *news) end(number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.done) < maxDone {
		n.done = append(n.done, int64(number))
	}
}

// take moves the news to m, and the memory of m's last ones here.
func (n *news) take(m *message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.sent, n.sent = n.sent, m.sent[:0]
	m.done, n.done = n.done, m.done[:0]
}

// another adds a prompt, with the memory of one that was there before.
func another(all []prompt) []prompt {
	if len(all) < cap(all) {
		return all[:len(all)+1]
	}
	return append(all, prompt{})
}
