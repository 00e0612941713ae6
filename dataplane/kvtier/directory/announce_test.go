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

// sent is how many messages were published.
func (b *bus) messages() (n, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.bytes
}

// An announcer with nothing to tell says so, ever less often; what changes at once is told at once; and a great deal takes several messages, none of them too long.
func TestAnnouncersSayLittle(t *testing.T) {
	inTown(t, directory.Config{}, func(w *town) {
		t := w.t
		s := newShop(kinds()...)
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
		got := w.index.Stored(nil, routing.Asked{Model: "4", Tokens: nil})
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

// A kind whose namespaces are gone leaves its place to another one, also between two looks at a tier.
// Nobody takes the pages of the one for those of the other.
func TestKindThatTakesAPlace(t *testing.T) {
	inTown(t, directory.Config{}, func(w *town) {
		t := w.t
		s := newShop(proto.Kind{ID: 1, Model: "before", PageSize: 4, Open: true})
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
			for _, found := range w.index.Stored(nil, routing.Asked{Model: "after", Tokens: ids}) {
				require.Zero(t, found.Tokens, "pages of another kind")
			}
		}
		require.True(t, armed)
		require.Zero(t, w.index.Status().Pages)
	})
}

// Where messages do not get through for long, nothing of it is believed for ever, and all is known soon after.
func TestOutages(t *testing.T) {
	inTown(t, directory.Config{}, func(w *town) {
		t := w.t
		w.bus.with(func() { w.bus.down = true })
		for _, name := range []string{"a", "b"} {
			w.start(name, newShop(kinds()...))
		}
		w.list("a", "b")
		time.Sleep(time.Minute)
		w.bus.with(func() { w.bus.down = false })
		w.settle()
		for range 10 {
			w.live(w.shops["a"])
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
			w.live(w.shops["b"])
		}
		w.bus.with(func() { w.bus.down = false })
		w.settle()
		w.compare(50)
		require.EqualValues(t, 2, w.index.Status().Forgotten)
	})
}

// A message that cannot be read, or that lies, harms nobody.
func TestBadMessages(t *testing.T) {
	inTown(t, directory.Config{}, func(w *town) {
		t := w.t
		w.list("a", "liar")
		w.start("a", newShop(kinds()...))
		w.live(w.shops["a"])
		w.settle()
		for _, text := range []string{"", "x", "\x01\x01", "\x01\x02aaaaaaaaaaaaaaaaaaaaaaaa", strings.Repeat("\xff", 5000)} {
			require.NoError(t, w.bus.Publish(announce.SubjectReport, []byte(text)))
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 5, w.index.Status().Malformed)
		// Somebody whom nobody can ask: version, kind, name, id and epoch, changes from 0 to 5, no kinds.
		require.NoError(t, w.bus.Publish(announce.SubjectReport, append(append([]byte("\x01\x01\x04liar"), make([]byte, 16)...), 0, 5, 0)))
		time.Sleep(10 * time.Second)
		st := w.index.Status()
		require.GreaterOrEqual(t, st.Failed, uint64(5))
		require.LessOrEqual(t, st.Failed, uint64(12), "he is asked once a second")
		w.settle()
		w.compare(30)
	})
}

// Two routers, of which one comes late: it asks who is there, and need not wait for the next change.
func TestLateRouter(t *testing.T) {
	inTown(t, directory.Config{}, func(w *town) {
		t := w.t
		w.start("a", newShop(kinds()...))
		for range 5 {
			w.live(w.shops["a"])
		}
		w.list("a")
		time.Sleep(time.Hour)
		late := directory.New(directory.Config{Bus: w.bus, Log: quiet})
		late.SetNodes(w.places)
		ctx, stop := context.WithCancel(t.Context())
		w.all.Go(func() { _ = late.Run(ctx) })
		t.Cleanup(stop)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, w.index.Status().Pages, late.Status().Pages)
		require.Positive(t, late.Status().Pages)
	})
}

// All that is counted is shown, and under names of its own.
func TestMetrics(t *testing.T) {
	inTown(t, directory.Config{}, func(w *town) {
		t := w.t
		s := newShop(kinds()...)
		a := announce.New(announce.Config{Node: "a", Bus: w.bus, Source: s, Log: quiet})
		w.start("a", s)
		w.list("a")
		s.set(0, proto.Hash{1}, true)
		w.settle()
		w.index.Stored(nil, routing.Asked{Model: "4", Tokens: make([]uint32, 100)})
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
