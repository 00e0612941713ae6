package tokens

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/radix"
)

var (
	// ErrUnavailable means that no ids can be had for this prompt now.
	ErrUnavailable = errors.New("tokens: unavailable")
	// ErrNotText means that the prompt is more than text: images, audio, embeddings.
	ErrNotText = fmt.Errorf("%w: the prompt is not text", ErrUnavailable)
	// ErrUnsupported means that the worker has no /v1/tokenize.
	ErrUnsupported = fmt.Errorf("%w: the worker does not tokenize", ErrUnavailable)
	// ErrPaused means that the worker failed to tokenize several times in a row and is not asked
	// for a while.
	ErrPaused = fmt.Errorf("%w: the worker failed recently", ErrUnavailable)
)

// Fetcher sends one POST to a worker and returns the whole answer. The body is the concatenation of
// its parts. An answer of known length is read into the memory that room returns for so many bytes;
// room is called once at most. Fetch must return soon after ctx ends, and after the deadline. The
// answer belongs to the caller; body must not be kept.
type Fetcher interface {
	Fetch(ctx context.Context, deadline time.Time, target, path string, body [][]byte, room func(n int) []byte) (status int, answer []byte, err error)
}

// Config of a Source. Fetch is required; zero values mean the defaults.
type Config struct {
	Fetch Fetcher
	// Index makes the hashes of a prompt's blocks, of BlockSize tokens each; 0 while the size is
	// unknown. Without an index there are no hashes.
	Index     *radix.Index
	BlockSize func() int
	// MaxBytes bounds the cache of prompts that came twice: 4 bytes an id, 8 a block, and about
	// 250 an entry. Default 64 MiB, which is some 1,700 prompts of 8,000 tokens. Negative: no
	// cache.
	MaxBytes int64
	// Deadline bounds a fetch. Default 500 ms: beyond that a wrong choice costs less than waiting.
	Deadline time.Duration
	// RecheckAfter is the time until a worker without /v1/tokenize is asked again. Default 60 s.
	RecheckAfter time.Duration
	// After PauseAfter failures in a row, a worker is not asked for Pause, so that a worker that
	// hangs does not delay every request by the deadline. Defaults 3 and 1 s.
	PauseAfter int
	Pause      time.Duration
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Prompt holds the ids and hashes of a prompt. All callers share it, until each has called Release.
type Prompt struct {
	IDs []uint32
	// Hashes are those of the whole blocks of Block tokens; none where Block is 0.
	Hashes []radix.Hash
	Block  int

	memory *promptMemory // nil: it is the garbage collector's
}

// Source gets and remembers token ids.
type Source struct {
	client client
	index  *radix.Index
	block  func() int
	keys   keyHasher
	cache  cache

	hits, misses, shared atomic.Uint64
}

// New returns a Source with an empty cache.
func New(cfg Config) (*Source, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("tokens: no fetcher")
	}
	setDefaults(&cfg)
	s := &Source{
		client: client{fetch: cfg.Fetch, deadline: cfg.Deadline},
		index:  cfg.Index,
		block:  cfg.BlockSize,
		keys:   keyHasher{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	s.cache.init(cfg.MaxBytes)
	s.client.targets.init(cfg)
	return s, nil
}

func setDefaults(cfg *Config) {
	if cfg.BlockSize == nil || cfg.Index == nil {
		cfg.BlockSize = func() int { return 0 }
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 64 << 20
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = 500 * time.Millisecond
	}
	if cfg.RecheckAfter <= 0 {
		cfg.RecheckAfter = time.Minute
	}
	if cfg.PauseAfter <= 0 {
		cfg.PauseAfter = 3
	}
	if cfg.Pause <= 0 {
		cfg.Pause = time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
}

// Prompt returns the request's prompt, of a batch the first one, asking target for its ids when
// they are not known. The request's own ids are returned unchanged and still belong to the request.
// When done closes, the call returns early unless other callers wait for its fetch.
func (s *Source) Prompt(done <-chan struct{}, target string, req *openai.Request) (Prompt, error) {
	if req.HasIDs {
		return Prompt{IDs: req.InputIDs}, nil
	}
	if req.Multimodal || (req.Prompt == nil && req.Messages == nil) {
		return Prompt{}, ErrNotText
	}
	k := s.keys.of(req)
	// Fast path: a known prompt.
	p, f, mine := s.cache.lookup(k)
	switch {
	case mine != nil:
		s.misses.Add(1)
		return s.fetchShared(mine, target, req)
	case f != nil:
		return s.wait(done, f)
	}
	s.hits.Add(1)
	if p.Block != s.block() { // cached before the block size was known
		// The cache's reference to the old memory stays: holders of the old hashes may read on.
		p = s.withHashes(p.IDs, nil)
		s.cache.renew(k, p)
	}
	return p, nil
}

// fetchShared fetches for all callers that wait for e, and releases them even when the fetcher
// panics.
func (s *Source) fetchShared(e *entry, target string, req *openai.Request) (p Prompt, err error) {
	err = ErrUnavailable
	defer func() { s.cache.finish(e, p, err) }()
	m, err := s.client.load(target, req)
	if err != nil {
		return Prompt{}, err
	}
	p = s.withHashes(m.ids, m.hashes)
	p.memory, m.hashes = m, p.Hashes
	return p, nil
}

// withHashes adds the hashes of their blocks to ids, in the memory of room if it is large enough.
func (s *Source) withHashes(ids []uint32, room []radix.Hash) Prompt {
	p := Prompt{IDs: ids, Block: s.block()}
	if p.Block > 0 {
		if n := len(ids) / p.Block; cap(room) < n {
			room = make([]radix.Hash, 0, n)
		}
		p.Hashes = s.index.AppendHashes(room[:0], ids, p.Block)
	}
	return p
}

// wait waits for a prompt that another caller is fetching.
func (s *Source) wait(done <-chan struct{}, f *sharedFetch) (Prompt, error) {
	s.shared.Add(1)
	select {
	case <-f.done:
		return f.prompt, f.err
	case <-done: // its reference to the prompt is never released
		return Prompt{}, fmt.Errorf("%w: the caller canceled", ErrUnavailable)
	}
}

// Stats are counters since New, and the cache's size now.
type Stats struct {
	// Hits were in the cache, Misses were not, Shared waited for another caller's fetch.
	Hits, Misses, Shared uint64
	// Failures are fetches that gave no ids.
	Failures uint64
	Evicted  uint64
	Entries  int
	Bytes    int64
}

// Stats returns the counters.
func (s *Source) Stats() Stats {
	st := Stats{
		Hits: s.hits.Load(), Misses: s.misses.Load(), Shared: s.shared.Load(), Failures: s.client.failures.Load(),
	}
	s.cache.addStats(&st)
	return st
}

// Forget drops the failures of a worker: call it when a worker leaves or restarts, or the state of
// workers gone would stay.
func (s *Source) Forget(target string) {
	s.client.targets.mu.Lock()
	defer s.client.targets.mu.Unlock()
	delete(s.client.targets.state, target)
}
