package store

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStoreAndRead(t *testing.T) {
	tier := serve(t, Config{})
	a, b, other := dialTier(t, tier, "m"), dialTier(t, tier, "m"), dialTier(t, tier, "another rank")
	hashes := a.store(1, 40)
	a.finds("by the engine that stored them", 40, hashes, 0)
	b.reads("by another engine of the model", 40, 1, hashes, 0)
	b.finds("10 that are there and 3 that are not", 10, append(hashes[:10:10], chain(2, 3)...), 0)
	other.finds("by an engine of another rank", 0, hashes, 0)
	if results := b.set(hashes[:2], []uint64{0, testTokens}, nil, true); !bytes.Equal(results, []byte{setPresent, setPresent}) {
		t.Errorf("storing pages that are there: %v, want %v twice", results, setPresent)
	}
	if s := tier.Stats(); s.Stored != 40 || s.Pages != 40 || s.Used != 40*testBytes || s.Namespaces != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// A page without commit is never read: the engine may have reused its memory during the copy.
func TestUnconfirmedPagesAreNeverSeen(t *testing.T) {
	tier := serve(t, Config{})
	a, b := dialTier(t, tier, "m"), dialTier(t, tier, "m")
	hashes := chain(1, 8)
	tokens := []uint64{0, 4, 8, 12, 16, 20, 24, 28}
	a.set(hashes, tokens, nil, false)
	b.finds("before they were confirmed", 0, hashes, 0)
	if results := b.set(hashes[:1], tokens[:1], nil, false); results[0] != setPresent {
		t.Errorf("a second writer of a page that is being written is told %d, want %d", results[0], setPresent)
	}
	a.conn.Close()
	eventually(t, "the room of an engine that left is free", func() bool { return tier.Stats().Abandoned >= 1 })
	b.store(1, 8)
	b.reads("after another engine stored them", 8, 1, hashes, 0)
}

func TestPinsKeepPages(t *testing.T) {
	tier := serve(t, Config{})
	a, b := dialTier(t, tier, "m"), dialTier(t, tier, "m")
	hashes := a.store(1, 16)
	pages := b.get(hashes, 0)
	room := int(tier.Stats().Bytes / testBytes)
	for p := range uint32(2) { // twice the memory
		a.store(2+p, room)
	}
	for i, page := range pages {
		if !bytes.Equal(page, pageBytes(1<<32+uint64(i))) {
			t.Fatalf("page %d was overwritten while it was read", i)
		}
	}
	if s := tier.Stats(); s.Pins != 16 || s.Evicted == 0 {
		t.Errorf("%d pins and %d evictions, want 16 and more than 0", s.Pins, s.Evicted)
	}
	b.conn.Close() // as a client that dies
	eventually(t, "the pins of an engine that died are gone", func() bool { return tier.Stats().Pins == 0 })
	for p := range uint32(6) { // two prompts that come again soon after they had to go
		a.store(12+p%2, room)
	}
	a.finds("not used since, after eight times the room", 0, hashes, 0)
}

func TestLeasesExpire(t *testing.T) {
	tier := serve(t, Config{})
	a := dialTier(t, tier, "m")
	hashes := a.store(1, 4)
	a.get(hashes, 0)
	tier.leases.expire(time.Now())
	if n := tier.Stats().Pins; n != 4 {
		t.Errorf("%d pins before the lease has ended, want 4", n)
	}
	tier.leases.expire(time.Now().Add(maxLease + time.Second))
	if s := tier.Stats(); s.Pins != 0 || s.Expired != 1 {
		t.Errorf("after the lease's end: %d pins, %d leases expired; want 0 and 1", s.Pins, s.Expired)
	}
	a.release() // of a lease that has ended: nothing
	a.reads("whose lease has ended", 4, 1, hashes, 0)
}

// A broken or hostile engine loses its own connection, with a reason, and no other.
func TestBadClients(t *testing.T) {
	tier := serve(t, Config{})
	good := dialTier(t, tier, "m")
	hashes := good.store(1, 8)
	r := request{hashes: hashes}
	far := request{hashes: chain(9, 1), tokens: []uint64{1 << 40}}
	over := request{hashes: chain(8, 1), tokens: []uint64{^uint64(0)}}
	tests := []struct {
		name string
		op   uint8
		body []byte
		want string
	}{
		{"unknown op", 99, nil, "unknown op"},
		{"second hello", opHello, hello{version: wireVersion, pageTokens: 1, name: "m"}.encode(), "second hello"},
		{"exists cut off", opExists, r.encode(opExists)[:50], "bad message"},
		{"exists with a number that is too large", opExists, []byte{0, 0, 0, 0, 255, 255, 255, 255}, "bad message"},
		{"get of nothing", opGet, nil, "bad message"},
		{"token outside of the pool", opSet, far.encode(opSet), "lies outside"},
		{"token that overflows", opSet, over.encode(opSet), "lies outside"},
		{"commit of nothing", opCommit, sequence(77), "not the last set"},
		{"release cut off", opRelease, []byte{1}, "bad message"},
	}
	for _, test := range tests {
		bad := dialTier(t, tier, "m")
		_, err := bad.ask(test.op, 0, test.body)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
		if _, err := bad.ask(opStats, 0, nil); err == nil {
			t.Errorf("%s: the connection goes on", test.name)
		}
	}
	good.reads("by another engine afterwards", 8, 1, hashes, 0)
	if s := tier.Stats(); s.Refused == 0 || s.Faults == 0 {
		t.Errorf("refused %d, faults %d, want more than none of each", s.Refused, s.Faults)
	}
	eventually(t, "no pins are left", func() bool { return tier.Stats().Pins == 0 })
}

func TestBadHellos(t *testing.T) {
	tier := serve(t, Config{})
	dialTier(t, tier, "m")
	good := hello{version: wireVersion, pageTokens: testTokens, regions: 1, name: "m", pieces: layerFirst()}
	pool, _ := newPool(t)
	pipe, other, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	defer other.Close()
	tests := []struct {
		name  string
		edit  func(*hello)
		files []*os.File
		want  string
	}{
		{"another version", func(m *hello) { m.version = 9 }, []*os.File{pool}, "version 9"},
		{"no pieces", func(m *hello) { m.pieces = nil }, []*os.File{pool}, "0 pieces"},
		{"no memory", func(*hello) {}, nil, "0 descriptors"},
		{"two for one", func(*hello) {}, []*os.File{pool, pool}, "2 descriptors"},
		{"a pipe", func(*hello) {}, []*os.File{pipe}, "want a memfd"},
		{"another size of page", func(m *hello) { m.pieces = m.pieces[1:] }, []*os.File{pool}, "page size"},
		{"a page that fits no slab", func(m *hello) { m.name, m.pieces = "big", []piece{{bytes: maxSlab}} }, []*os.File{pool}, "page size"},
		{"a region that is not there", func(m *hello) { m.pieces[0].region = 3 }, []*os.File{pool}, "region 3"},
	}
	for _, test := range tests {
		m := good
		m.pieces = append([]piece(nil), good.pieces...)
		test.edit(&m)
		_, _, err := dialRaw(t, tier.cfg.Socket).greet(m, test.files...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
	}
}

// Reads of truncated engine memory are a SIGBUS, which must not end the process.
func TestMemoryThatGoesAway(t *testing.T) {
	tier := serve(t, Config{})
	good, bad := dialTier(t, tier, "m"), dialTier(t, tier, "m")
	require.NoError(t, bad.file.Truncate(0))
	r := request{hashes: chain(1, 1), tokens: []uint64{0}}
	if _, err := bad.ask(opSet, 0, r.encode(opSet)); err == nil || !strings.Contains(err.Error(), "gone during a read") {
		t.Errorf("storing from memory that was cut off: %v", err)
	}
	good.reads("by another engine", 8, 2, good.store(2, 8), 0)
	if s := tier.Stats(); s.Faults != 1 {
		t.Errorf("%d faults, want 1", s.Faults)
	}
}

// Engines store, read and leave concurrently, and each page read is the right one.
func TestManyEngines(t *testing.T) {
	tier := serve(t, Config{})
	const engines, prompts = 6, 8
	var all sync.WaitGroup
	for i := range engines {
		e := dialTier(t, tier, "m")
		all.Go(func() {
			for round := range 4 {
				p := uint32((i*7+round*5)%prompts) + 1
				n := 200 + int(p)*60 // together more than fit
				hashes := chain(p, n)
				e.check(p, hashes[:e.exists(hashes, 0)], 0)
				e.store(p, n)
			}
		})
	}
	all.Wait()
	s := tier.Stats()
	if s.Evicted == 0 || s.Read == 0 {
		t.Errorf("evicted %d, read %d: the test shows nothing", s.Evicted, s.Read)
	}
	eventually(t, "no pins are left", func() bool { return tier.Stats().Pins == 0 })
}

func TestSocketOfADeadSidecar(t *testing.T) {
	path := t.TempDir() + "/kv.sock"
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	l.Close()
	tier := serve(t, Config{Socket: path})
	dialTier(t, tier, "m").store(1, 1)

	second, err := New(Config{Bytes: minBytes, Socket: path})
	require.NoError(t, err)
	defer second.Close()
	if err := second.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "another sidecar") {
		t.Errorf("a second sidecar on the same socket: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 && info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, want the owner's only (%v)", info.Mode(), err)
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {Bytes: minBytes - 1}} {
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("New(%+v) = %v, want ErrConfig", cfg, err)
		}
	}
}
