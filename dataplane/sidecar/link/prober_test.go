package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv("WARMPATH_LINK_END"); spec != "" {
		os.Exit(endMain(spec))
	}
	leaktest.Main(m)
}

var _ link.Bus = (*cluster.Cluster)(nil)

// bus is an in-memory Bus.
type bus struct {
	mu      sync.Mutex
	answers map[string]func([]byte) []byte // guarded by mu
	asked   int                            // guarded by mu
}

var errNobody = errors.New("nobody replies")

func (b *bus) Request(_ context.Context, subject string, data []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if f := b.answers[subject]; f != nil {
		return f(data), nil
	}
	return nil, errNobody
}

func (b *bus) Reply(subject string, f func([]byte) []byte) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == nil {
		b.answers = map[string]func([]byte) []byte{}
	}
	b.answers[subject] = f
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.answers, subject)
	}, nil
}

// run runs a prober until the test ends.
func run(t *testing.T, cfg link.Config) *link.Prober {
	t.Helper()
	p, err := link.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return p
}

// wait waits until the link to a node is as wanted.
func wait(t *testing.T, p *link.Prober, node string, ok func(cluster.Link) bool) cluster.Link {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, l := range p.Links() {
			if l.To == node && ok(l) {
				return l
			}
		}
	}
	t.Fatalf("no such link to %s: %+v", node, p.Links())
	return cluster.Link{}
}

func TestTwoNodesMeasureEachOther(t *testing.T) {
	net, messages := nixltest.NewLoopback(), &bus{}
	peers := func() []string { return []string{"a", "b"} }
	base := link.Config{Bus: messages, Peers: peers, Fabric: net, Every: 20 * time.Millisecond, Largest: 1 << 20, Scan: 5 * time.Millisecond}
	a, b := base, base
	a.Node, b.Node = "a", "b"
	first, second := run(t, a), run(t, b)
	for p, to := range map[*link.Prober]string{first: "b", second: "a"} {
		// A transfer that another process interrupts looks like TCP: measured often, one is left
		// in peace.
		l := wait(t, p, to, func(l cluster.Link) bool { return l.Path == string(link.CMA) || l.Path == string(link.Shared) })
		if l.Broken != "" || l.At.IsZero() || l.Read <= 0 || l.Write <= 0 || l.Latency <= 0 || l.Slow != "" {
			t.Errorf("the link to %s = %+v", to, l)
		}
		agents := p.Agents()
		if a := agents["link-measures"]; a.Completed == 0 || a.BytesRead == 0 || a.BytesWritten == 0 {
			t.Errorf("the agent that has measured says %+v", a)
		}
		other := map[*link.Prober]*link.Prober{first: second, second: first}[p] // which it has measured
		if a, ok := other.Agents()["link-offers"]; !ok || a.Posted != 0 {
			t.Errorf("the agent that is measured says %+v, %v", a, ok)
		}
		if len(p.Links()) != 1 {
			t.Errorf("Links = %+v, want one", p.Links())
		}
	}
}

// TestUnknownLinks: nothing is known of links to a node that does not answer, has no NIXL or
// answers nonsense, nor of links from a node without NIXL. A link over which NIXL cannot connect
// is broken.
func TestUnknownLinks(t *testing.T) {
	net, messages := nixltest.NewLoopback(), &bus{}
	lied, _ := json.Marshal(link.Offer{Metadata: []byte("garbage")})
	for node, answer := range map[string]string{"6e6f6e73656e7365": "{", "6c696172": string(lied)} { // nonsense, liar
		if _, err := messages.Reply("link."+node, func([]byte) []byte { return []byte(answer) }); err != nil {
			t.Fatal(err)
		}
	}
	quick := link.Config{Bus: messages, Largest: 1 << 20, Scan: 5 * time.Millisecond, Retry: 10 * time.Millisecond}
	bare, good := quick, quick
	bare.Node, bare.Peers = "bare", func() []string { return []string{"good"} }
	good.Node, good.Peers, good.Fabric = "good", func() []string { return []string{"silent", "bare", "nonsense", "liar"} }, net
	from := run(t, bare)
	p := run(t, good)
	unknown := func(words string) func(cluster.Link) bool {
		return func(l cluster.Link) bool { return contains(l.Unknown, words) && l.Broken == "" && l.At.IsZero() }
	}
	for node, words := range map[string]string{"silent": errNobody.Error(), "bare": "no NIXL", "nonsense": "offer"} {
		wait(t, p, node, unknown(words))
	}
	wait(t, from, "good", unknown("no NIXL"))
	wait(t, p, "liar", func(l cluster.Link) bool { return contains(l.Broken, "metadata") && l.Path == string(link.Unknown) })
}

// TestWordsOfOthersAreBounded: a node that refuses with endless words leaves other nodes' records
// short enough for the cluster.
func TestWordsOfOthersAreBounded(t *testing.T) {
	messages := &bus{}
	refused, _ := json.Marshal(link.Offer{Refused: strings.Repeat("no… ", 200_000)})
	if _, err := messages.Reply("link.6c696172", func([]byte) []byte { return refused }); err != nil { // liar
		t.Fatal(err)
	}
	p := run(t, link.Config{
		Bus: messages, Node: "good", Peers: func() []string { return []string{"liar"} }, Fabric: nixltest.NewLoopback(), Scan: 5 * time.Millisecond,
	})
	l := wait(t, p, "liar", func(l cluster.Link) bool { return contains(l.Unknown, "it offers no memory: no… no") })
	if len(l.Unknown) > 600 || !utf8.ValidString(l.Unknown) {
		t.Errorf("the link has %d bytes of words", len(l.Unknown))
	}
}

// TestLinkHeals lets the transfers of a link fail for a while.
func TestLinkHeals(t *testing.T) {
	net, messages := nixltest.NewLoopback(), &bus{}
	net.OnPost(func(nixltest.Request) nixltest.Outcome { return nixltest.Outcome{PostErr: cgo.ErrBackend} })
	base := link.Config{Bus: messages, Fabric: net, Largest: 1 << 20, Scan: 5 * time.Millisecond, Retry: 10 * time.Millisecond, Every: 20 * time.Millisecond}
	a, b := base, base
	a.Node, a.Peers = "a", func() []string { return nil }
	b.Node, b.Peers = "b", func() []string { return []string{"a"} }
	run(t, a)
	p := run(t, b)
	wait(t, p, "a", func(l cluster.Link) bool { return contains(l.Broken, "write") })
	net.OnPost(nil)
	wait(t, p, "a", func(l cluster.Link) bool { return l.Broken == "" && l.Read > 0 })
}

// TestNodesThatLeave: nodes that leave are forgotten.
func TestNodesThatLeave(t *testing.T) {
	var mu sync.Mutex
	nodes := []string{"gone"}
	p := run(t, link.Config{Node: "a", Bus: &bus{}, Largest: 1 << 20, Scan: 5 * time.Millisecond, Peers: func() []string {
		mu.Lock()
		defer mu.Unlock()
		return nodes
	}})
	wait(t, p, "gone", func(cluster.Link) bool { return true })
	mu.Lock()
	nodes = nil
	mu.Unlock()
	for end := time.Now().Add(2 * time.Minute); len(p.Links()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("Links = %+v, want none", p.Links())
		}
	}
}

func contains(s, words string) bool { return strings.Contains(s, words) }
