package directory

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// hintBus records published messages.
type hintBus struct {
	mu   sync.Mutex
	sent []string // subject, then the message
	err  error
	hold chan struct{} // nil: Publish does not wait
}

func (b *hintBus) Publish(subject string, data []byte) error {
	if b.hold != nil {
		<-b.hold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.sent = append(b.sent, subject+"\n"+string(data))
	}
	return b.err
}

func (b *hintBus) messages() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sent)
}

// nodeName names numbered nodes.
func nodeName(place uint32) string {
	return []string{"", "one", "two", strings.Repeat("long", 80)}[place]
}

// runSender runs a HintSender until the test ends.
func runSender(t *testing.T, h *HintSender) *HintSender {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = h.Run(ctx) })
	t.Cleanup(func() { stop(); all.Wait() })
	return h
}

func hinted(n int) routing.PullHint {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i)
	}
	return routing.PullHint{Place: 1, From: 2, PageSize: 16, Have: 16, TierQuery: routing.TierQuery{Model: "m", Salt: "s", Tokens: ids}}
}

func TestHintsAreSent(t *testing.T) {
	b := &hintBus{}
	h := runSender(t, NewHintSender(b, nodeName))
	p := hinted(64)
	h.Hint(p)
	clear(p.Tokens) // they are the request's
	for _, change := range []func(p *routing.PullHint){
		func(p *routing.PullHint) { p.Place = 0 },
		func(p *routing.PullHint) { p.LoRA = "adapter" },
		func(p *routing.PullHint) { p.Tokens = p.Tokens[:20] }, // no whole page behind the prefix cache
		func(p *routing.PullHint) { p.Place, p.From = 2, 0 },
		func(p *routing.PullHint) { p.From = 3 }, // a name that fits no message is left out
	} {
		p := hinted(64)
		change(&p)
		h.Hint(p)
	}
	require.Eventually(t, func() bool { return h.sent.Load()+h.gone.Load()+h.none.Load() == 6 }, 5*time.Minute, time.Millisecond)
	assert.Equal(t, []uint64{3, 3 * 48, 1, 2, 0}, []uint64{h.sent.Load(), h.tokens.Load(), h.gone.Load(), h.none.Load(), h.failed.Load()})
	var from []string
	for i, text := range b.messages() {
		subject, data, _ := strings.Cut(text, "\n")
		assert.Equal(t, hint.Subject([]string{"one", "two", "one"}[i]), subject)
		m, err := hint.Parse([]byte(data))
		require.NoError(t, err)
		assert.Equal(t, []any{16, 16, "m", "s", 64}, []any{m.PageSize, m.Have, string(m.Model), string(m.Salt), m.Tokens()})
		assert.EqualValues(t, 63, binary.LittleEndian.Uint32(m.IDs[4*63:]))
		from = append(from, string(m.From))
	}
	assert.Equal(t, []string{"two", "", ""}, from)

	b.mu.Lock()
	b.err = errors.New("down")
	b.mu.Unlock()
	h.Hint(hinted(64))
	require.Eventually(t, func() bool { return h.failed.Load() == 1 }, 5*time.Minute, time.Millisecond)
}

// While nothing can be sent, requests go on at once: hints beyond the bound are dropped and
// counted.
func TestHintsNeverWait(t *testing.T) {
	b := &hintBus{hold: make(chan struct{})}
	h := runSender(t, NewHintSender(b, nodeName))
	for range maxQueuedHints + 10 {
		h.Hint(hinted(64))
	}
	require.EqualValues(t, 10, h.overflow.Load())
	close(b.hold)
	require.Eventually(t, func() bool { return h.sent.Load() == maxQueuedHints }, 5*time.Minute, time.Millisecond)
	h.Hint(hinted(maxHintBuffer)) // and the buffer of a long prompt is freed
	require.Eventually(t, func() bool { return h.sent.Load() == maxQueuedHints+1 && len(h.free) == maxQueuedHints }, 5*time.Minute, time.Millisecond)
	for range maxQueuedHints {
		assert.LessOrEqual(t, cap((<-h.free).data), maxHintBuffer)
	}
}

func TestHintMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(NewHintSender(&hintBus{}, nodeName).Collector())
	families, err := r.Gather()
	require.NoError(t, err)
	assert.Len(t, families, 3)
}

// BenchmarkHint measures the cost of a hint for its request, by the length of the prompt.
func BenchmarkHint(b *testing.B) {
	for _, n := range []int{1024, 16384} {
		b.Run("tokens="+strconv.Itoa(n), func(b *testing.B) {
			h, p := NewHintSender(&hintBus{}, nodeName), hinted(n)
			b.ReportAllocs()
			for b.Loop() {
				h.Hint(p)
				h.free <- <-h.full
			}
		})
	}
}
