package directory_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// messages returns the number and the bytes of published messages.
func (b *bus) messages() (n, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.bytes
}

// An idle announcer reports in doubling intervals; changes are reported at once; many changes
// take several messages of bounded size.
func TestAnnouncersSayLittle(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		s := newFakeTier(kinds()...)
		w.start("a", s)
		w.list("a")
		w.settle()
		before, bytes := w.bus.messages()
		time.Sleep(time.Hour)
		n, more := w.bus.messages()
		require.LessOrEqual(t, n-before, 361)
		require.GreaterOrEqual(t, n-before, 359)
		require.Less(t, (more-bytes)/(n-before), 100, "bytes of a message")

		pages := proto.PageHashes(prompt(w.rng), 4, "")[:20]
		before = n
		for _, p := range pages {
			s.set(0, p, true)
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		n, _ = w.bus.messages()
		require.Equal(t, 1, n-before)
		got := w.index.Stored(nil, routing.TierQuery{Model: "4", Tokens: nil})
		require.Empty(t, got)
		require.Equal(t, 20, w.index.Status().Pages)

		before = n
		for i := range uint32(70_000) {
			s.set(1, proto.Hash{byte(i), byte(i >> 8), byte(i >> 16), 1}, true)
		}
		time.Sleep(time.Second)
		n, _ = w.bus.messages()
		require.Equal(t, 3, n-before)
		require.Equal(t, 70_020, w.index.Status().Pages)
		w.bus.with(func() { require.Less(t, w.bus.most, 400<<10) })
	})
}

// A kind without namespaces leaves its index to another kind, also between two looks at a tier.
// Pages of the one never count for the other.
func TestKindThatTakesAPlace(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		s := newFakeTier(proto.Kind{ID: 1, Model: "before", PageSize: 4, Open: true})
		ids := prompt(w.rng)[:100] // one piece of the contents
		for _, page := range proto.PageHashes(ids, 4, "") {
			s.set(0, page, true)
		}
		armed := false
		s.during(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if armed {
				return
			}
			armed = true
			s.listed = func() {
				s.epoch, s.kinds[0] = s.epoch+1, proto.Kind{ID: 2, Model: "after", PageSize: 4, Open: true}
				s.held[0], s.log = map[proto.Hash]bool{}, nil
			}
		})
		w.start("a", s)
		w.list("a")
		for range 10_000 {
			time.Sleep(time.Millisecond)
			for _, found := range w.index.Stored(nil, routing.TierQuery{Model: "after", Tokens: ids}) {
				require.Zero(t, found.Tokens, "pages of another kind")
			}
		}
		require.True(t, armed)
		require.Zero(t, w.index.Status().Pages)
	})
}

// After a long outage nothing stale is left, and all contents are known soon after its end.
func TestOutages(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		w.bus.with(func() { w.bus.down = true })
		for _, name := range []string{"a", "b"} {
			w.start(name, newFakeTier(kinds()...))
		}
		w.list("a", "b")
		time.Sleep(time.Minute)
		w.bus.with(func() { w.bus.down = false })
		w.settle()
		for range 10 {
			w.churn(w.tiers["a"])
		}
		w.settle()
		w.compare(50)
		require.Positive(t, w.index.Status().Pages)

		w.bus.with(func() { w.bus.down = true })
		time.Sleep(35 * time.Second)
		require.Positive(t, w.index.Status().Pages, "a short outage costs nothing")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, w.index.Status().Pages, "a longer one: nobody knows what they hold by now")
		for range 10 {
			w.churn(w.tiers["b"])
		}
		w.bus.with(func() { w.bus.down = false })
		w.settle()
		w.compare(50)
		require.EqualValues(t, 2, w.index.Status().Forgotten)
	})
}

// Malformed and false messages change nothing.
func TestBadMessages(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		w.list("a", "liar")
		w.start("a", newFakeTier(kinds()...))
		w.churn(w.tiers["a"])
		w.settle()
		for _, text := range []string{"", "x", "\x01\x01", "\x01\x02aaaaaaaaaaaaaaaaaaaaaaaa", strings.Repeat("\xff", 5000)} {
			require.NoError(t, w.bus.Publish(announce.SubjectReport, []byte(text)))
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 5, w.index.Status().Malformed)
		// Somebody whom nobody can ask: version, kind, name, id and epoch, changes from 0 to 5,
		// no kinds.
		require.NoError(t, w.bus.Publish(announce.SubjectReport, append(append([]byte("\x01\x01\x04liar"), make([]byte, 16)...), 0, 5, 0)))
		time.Sleep(10 * time.Second)
		st := w.index.Status()
		require.GreaterOrEqual(t, st.Failed, uint64(5))
		require.LessOrEqual(t, st.Failed, uint64(12), "he is asked once a second")
		w.settle()
		w.compare(30)
	})
}

// Nodes whose contents never end, more of them than are learnt at once, keep no other from being learnt.
func TestEndlessNodes(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		names := []string{"a"}
		for i := range uint64(6) {
			name := string(rune('p' + i))
			names = append(names, name)
			id, place := 100+i, uint64(0)
			stop, err := w.bus.ReplyOwn(announce.SubjectQuestion(id), func([]byte) []byte {
				time.Sleep(2 * time.Second)
				place++
				m := announce.Report{Type: announce.TypeContents, Node: name, Announcer: id, Next: place + 1}
				return m.Append(nil)
			})
			require.NoError(t, err)
			defer stop()
			first := announce.Report{Type: announce.TypeChanges, Node: name, Announcer: id, Next: 5}
			require.NoError(t, w.bus.Publish(announce.SubjectReport, first.Append(nil)))
		}
		w.list(names...)
		time.Sleep(10 * time.Second) // they have all places
		w.start("a", newFakeTier(kinds()...))
		w.churn(w.tiers["a"])
		time.Sleep(3 * time.Minute)
		require.Positive(t, w.index.Status().Pages)
	})
}

// Names that are no text leave nothing: a scrape would lose the metrics of all nodes by them.
func TestNamesThatAreNoText(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		time.Sleep(time.Second)
		for _, m := range []announce.Report{
			{Type: announce.TypeChanges, Node: "\xff", Next: 1},
			{Type: announce.TypeChanges, Node: "a", Next: 1, Kinds: []proto.Kind{{ID: 1, Model: "\xc3", PageSize: 4}}},
		} {
			require.NoError(t, w.bus.Publish(announce.SubjectReport, m.Append(nil)))
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 2, w.index.Status().Malformed)
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(w.index.Collector())
		_, err := reg.Gather()
		require.NoError(t, err)
	})
}

// A node tells of its own pages only, where its token has its name.
func TestForgedNode(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		w.bus.with(func() { w.bus.owner = "rogue" })
		w.list("a", "rogue")
		w.start("a", newFakeTier(kinds()...))
		w.start("rogue", newFakeTier(kinds()...))
		time.Sleep(5 * time.Second)
		st := w.index.Status()
		require.Len(t, st.Nodes, 1)
		require.Equal(t, "rogue", st.Nodes[0].Name)
		require.Positive(t, st.Malformed)
	})
}

// A router that starts late asks announcers to join, and need not wait for the next change.
func TestLateRouter(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		w.start("a", newFakeTier(kinds()...))
		for range 5 {
			w.churn(w.tiers["a"])
		}
		w.list("a")
		time.Sleep(time.Hour)
		late := directory.New(directory.Config{Bus: w.bus, Log: quiet})
		late.SetNodes(w.nodes)
		ctx, stop := context.WithCancel(t.Context())
		w.all.Go(func() { _ = late.Run(ctx) })
		t.Cleanup(stop)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, w.index.Status().Pages, late.Status().Pages)
		require.Positive(t, late.Status().Pages)
	})
}

// Metrics show all counts, under names of their own.
func TestMetrics(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		s := newFakeTier(kinds()...)
		a := announce.New(announce.Config{Node: "a", Bus: w.bus, Source: s, Log: quiet})
		w.start("a", s)
		w.list("a")
		s.set(0, proto.Hash{1}, true)
		w.settle()
		w.index.Stored(nil, routing.TierQuery{Model: "4", Tokens: make([]uint32, 100)})
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(a.Collector(), w.index.Collector())
		families, err := reg.Gather()
		require.NoError(t, err)
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := []string{f.GetName()}
				for _, l := range m.GetLabel() {
					name = append(name, l.GetValue())
				}
				got[strings.Join(name, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		for name, want := range map[string]float64{
			"warmpath_shelf_node_pages a": 1, "warmpath_shelf_node_known a": 1, "warmpath_shelf_pages": 1, "warmpath_shelf_lookups_total found": 0,
			"warmpath_shelf_lookups_total nothing": 1, "warmpath_shelf_left_out_pages_total": 0, "warmpath_shelf_events_total resync": 1,
			"warmpath_kv_tier_announced_pages_total stored": 0, // by another one than the one that runs
		} {
			value, known := got[name]
			require.True(t, known, name)
			require.InDelta(t, want, value, 0, name)
		}
	})
}
