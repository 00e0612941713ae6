package directory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// bus is an in-memory network with configurable delay and loss.
type bus struct {
	mu      sync.Mutex
	rng     *rand.Rand
	loss    float64 // of messages; of questions and answers a third of that
	delay   time.Duration
	down    bool
	subs    map[string][]*sub
	replies map[string]*sub
	owner   string // of all messages
	sent    int    // messages that were published
	bytes   int
	most    int // bytes of the longest message or answer
}

type sub struct {
	f     func([]byte)
	reply func([]byte) []byte
	busy  sync.Mutex // f is called by one at a time
}

var (
	_ directory.Bus = (*bus)(nil)

	errDown = errors.New("bus: down")
	errGone = errors.New("bus: nobody replies")
)

func newBus() *bus {
	return &bus{rng: rand.New(rand.NewPCG(5, 6)), delay: time.Millisecond, subs: map[string][]*sub{}, replies: map[string]*sub{}}
}

func (b *bus) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *bus) PublishOwn(subject string, data []byte) error { return b.Publish(subject, data) }

func (b *bus) ReplyOwn(subject string, f func([]byte) []byte) (func(), error) {
	return b.reply(subject, f)
}

func (b *bus) RequestNode(ctx context.Context, subject, _ string, data []byte) ([]byte, error) {
	return b.request(ctx, subject, data)
}

func (b *bus) SubscribeOwn(subject string, f func(string, []byte)) (func(), error) {
	return b.Subscribe(subject, func(data []byte) { f(b.owner, data) })
}

func (b *bus) Publish(subject string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errDown
	}
	b.sent++
	b.bytes, b.most = b.bytes+len(data), max(b.most, len(data))
	for _, s := range b.subs[subject] {
		if b.rng.Float64() < b.loss {
			continue
		}
		data := slices.Clone(data)
		time.AfterFunc(b.delay, func() {
			s.busy.Lock()
			defer s.busy.Unlock()
			s.f(data)
		})
	}
	return nil
}

func (b *bus) Subscribe(subject string, f func([]byte)) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	s := &sub{f: f}
	b.subs[subject] = append(b.subs[subject], s)
	return func() {
		b.with(func() { b.subs[subject] = slices.DeleteFunc(b.subs[subject], func(o *sub) bool { return o == s }) })
	}, nil
}

func (b *bus) reply(subject string, f func([]byte) []byte) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	s := &sub{reply: f}
	b.replies[subject] = s
	return func() { b.with(func() { delete(b.replies, subject) }) }, nil
}

func (b *bus) request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	b.mu.Lock()
	s, lost, down, delay := b.replies[subject], b.rng.Float64() < b.loss/3, b.down, b.delay
	b.mu.Unlock()
	switch {
	case down:
		return nil, errDown
	case s == nil:
		return nil, errGone
	case lost:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(delay)
	s.busy.Lock()
	defer s.busy.Unlock()
	answer := s.reply(slices.Clone(data))
	b.with(func() { b.most = max(b.most, len(answer)) })
	return answer, nil
}

// fakeTier is an announce.Source in memory.
type fakeTier struct {
	mu      sync.Mutex
	epoch   uint64
	kinds   []proto.Kind
	held    []map[proto.Hash]bool // by kind
	log     []proto.Change
	keeps   int // changes that it remembers
	news    chan struct{}
	scanned func() // called between two pieces of the contents
	listed  func() // called once, under mu, before the kinds are listed
	cut     []proto.Change
}

var _ announce.Source = (*fakeTier)(nil)

func newFakeTier(kinds ...proto.Kind) *fakeTier {
	s := &fakeTier{news: make(chan struct{}, 1), keeps: 1 << 20, kinds: kinds}
	for range kinds {
		s.held = append(s.held, map[proto.Hash]bool{})
	}
	return s
}

// set adds or removes a page.
func (s *fakeTier) set(kind int, page proto.Hash, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[kind][page] == there {
		return
	}
	s.held[kind][page] = there
	if !there {
		delete(s.held[kind], page)
	}
	s.log = append(s.log, proto.Change{Page: page.Name(), Kind: uint32(kind), Removed: !there})
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// during has f called between two parts of the contents.
func (s *fakeTier) during(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scanned = f
}

func (s *fakeTier) has(kind int, page proto.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[kind][page]
}

func (s *fakeTier) open(kind int, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[kind].Open = open
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// pages lists the pages of a kind.
func (s *fakeTier) pages(kind int) []proto.Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]proto.Hash, 0, len(s.held[kind]))
	for p := range s.held[kind] {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b proto.Hash) int { return slices.Compare(a[:], b[:]) })
	return list
}

func (s *fakeTier) now() proto.Position {
	return proto.Position{Epoch: s.epoch, Number: uint64(len(s.log))}
}

func (s *fakeTier) Subscribe() (proto.Position, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now(), s.news
}

func (s *fakeTier) Kinds() []proto.Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.listed; f != nil {
		s.listed = nil
		f()
	}
	return slices.Clone(s.kinds)
}

func (s *fakeTier) Changes(dst []proto.Change, from proto.Position) ([]proto.Change, proto.Position, proto.Position, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if from.Epoch != now.Epoch || from.Number > now.Number || now.Number-from.Number > uint64(s.keeps) {
		return dst, now, now, false
	}
	n := min(cap(dst), len(s.log)-int(from.Number))
	dst = append(dst, s.log[from.Number:int(from.Number)+n]...)
	from.Number += uint64(n)
	return dst, from, now, true
}

// Contents returns the pages at the first call, in small parts: later changes are missing.
func (s *fakeTier) Contents(dst []proto.Change, place int) ([]proto.Change, int) {
	s.mu.Lock()
	scanned := s.scanned
	s.mu.Unlock()
	if scanned != nil {
		scanned()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if place == 0 {
		s.cut = nil
		for kind, held := range s.held {
			for p := range held {
				s.cut = append(s.cut, proto.Change{Page: p.Name(), Kind: uint32(kind)})
			}
		}
	}
	const piece = 50
	end := min(place+min(piece, cap(dst)), len(s.cut))
	if place < end {
		dst = append(dst, s.cut[place:end]...)
	}
	if end == len(s.cut) {
		return dst, -1
	}
	return dst, end
}
