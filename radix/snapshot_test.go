package radix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// snapshot writes all workers of an index, named by their ids.
func snapshot(tb testing.TB, x *Index) ([]byte, SnapshotCounts) {
	tb.Helper()
	var out bytes.Buffer
	s, err := NewSnapshotWriter(x, &out)
	if err != nil {
		tb.Fatal(err)
	}
	count := takeAll(tb, s)
	return out.Bytes(), count
}

// takeAll writes and ends a snapshot.
func takeAll(tb testing.TB, s *SnapshotWriter) SnapshotCounts {
	tb.Helper()
	for _, o := range s.x.workers.list() {
		if o == nil {
			continue
		}
		if err := errors.Join(s.Take(o.id, fmt.Sprint(o.id), []byte("meta")), s.Flush()); err != nil {
			tb.Fatal(err)
		}
	}
	count, err := s.Close()
	if err != nil {
		tb.Fatal(err)
	}
	return count
}

// plain is a frame without compression, which saves most of a history's time.
type plain struct{ bytes.Buffer }

func (p *plain) Close() error { return nil }

// copyOf returns the index loaded from a snapshot of all workers.
func copyOf(tb testing.TB, x *Index) (*Index, []Restored, SnapshotCounts) {
	tb.Helper()
	var out plain
	count := takeAll(tb, newRecordWriter(x, &out))
	y, restored, err := loadRecords(&out, Config{Stripes: 2}, maxSnapshotBytes)
	if err != nil {
		tb.Fatal(err)
	}
	checkIndex(tb, y)
	return y, restored, count
}

func mustLoad(tb testing.TB, data []byte) (*Index, []Restored) {
	tb.Helper()
	x, restored, err := LoadSnapshot(bytes.NewReader(data), Config{Stripes: 2})
	if err != nil {
		tb.Fatal(err)
	}
	return x, restored
}

// facts describes the content of each worker of an index, in the order of ids.
func facts(x *Index) (all []string) {
	names := domainKeys(x)
	for _, o := range x.workers.list() {
		if o == nil {
			continue
		}
		all = append(all, fmt.Sprintf("worker, %d entries", x.Blocks(o.id)))
		where := func(p blockRef) string {
			return fmt.Sprintf("%+v %x copies %v",
				names[p.holding.run.domain], path(p.holding.run, p.offset+1), p.copies)
		}
		var lines []string
		for _, h := range o.holdings.list {
			if h == nil {
				continue
			}
			for i, key := range h.run.listed() {
				if n := h.listedCopies(uint32(i)); n != (copies{}) {
					lines = append(lines, fmt.Sprintf("%x at %s",
						key, where(blockRef{h, uint32(i), n})))
				}
			}
		}
		for _, e := range o.entries.slots {
			switch {
			case e.empty():
			case e.handle == aliased:
				var at []string
				for _, p := range o.aliases[e.key].blocks {
					at = append(at, where(p))
				}
				lines = append(lines, fmt.Sprintf("%x at %q, lost %v",
					e.key, slices.Sorted(slices.Values(at)), o.aliases[e.key].removals))
			default:
				lines = append(lines, fmt.Sprintf("%x at %s",
					e.key, where(blockRef{o.holdings.list[e.handle], e.offset, e.copies})))
			}
		}
		slices.Sort(lines)
		all = append(all, lines...)
	}
	return all
}

// path returns the hashes from a domain's start to the first n of a run.
func path(r *run, n uint32) []Hash {
	if r.parent == nil {
		return nil
	}
	return append(path(r.parent, r.offset), r.hashes()[:n]...)
}

// reload continues with the index loaded from a snapshot of the history's index.
func (h *history) reload() {
	h.t.Helper()
	x, restored, count := copyOf(h.t, h.x)
	if got, want := facts(x), facts(h.x); !slices.Equal(got, want) {
		h.t.Fatalf("loaded:\n%s\nwritten:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s := x.Stats(); count.Workers != s.Workers || count.Entries != s.Entries {
		h.t.Fatalf("Close() = %+v, loaded are %+v", count, s)
	}
	if y, _, _ := copyOf(h.t, x); !slices.Equal(facts(y), facts(x)) {
		h.t.Fatal("a snapshot of the loaded index differs")
	}
	// The oracle gets the new ids and domains.
	to := make(map[Domain]Domain)
	for d, k := range domainKeys(h.x) {
		to[d] = x.Domain(k)
	}
	held := make(map[Worker]map[uint64]*naiveEntry)
	h.alive = h.alive[:0]
	for _, w := range restored {
		var old Worker
		fmt.Sscan(w.Name, &old)
		held[w.Worker] = h.oracle.workers[old]
		h.alive = append(h.alive, w.Worker)
		for _, e := range held[w.Worker] {
			places := make(map[Domain]*naiveBlock)
			for d, p := range e.blocks {
				p.path = naivePath(to[d]) + p.path[4:]
				places[to[d]] = p
			}
			e.blocks = places
		}
	}
	h.oracle.workers, h.x, h.parents, h.removes = held, x, 0, 0
}

// FuzzSnapshotHistory runs any history on the oracle and on an index that is written and loaded
// repeatedly.
func FuzzSnapshotHistory(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 600), byte(7))
	}
	f.Fuzz(func(t *testing.T, in []byte, every byte) {
		newHistory(t, in[:min(len(in), 2048)]).runReloading(1 + int(every))
	})
}

func (h *history) runReloading(every int) {
	for i := 1; len(h.in) > 0; i++ {
		h.op()
		if i%every == 0 {
			h.reload()
		}
		h.compareSizes()
		h.compareMatch()
	}
	h.reload()
	h.compareSizes()
	h.compareAll()
}

func TestSnapshotHistories(t *testing.T) {
	for seed := range uint64(17 * reloads) { // each period
		newHistory(t, randomBytes(2000+seed, 1500)).runReloading(1 + int(seed%17))
	}
	for seed := range uint64(copylessHistories) {
		h := newHistory(t, randomBytes(3000+seed, 1500))
		h.x.tree.blocks.runs.last = maxHandle // no listed copies
		h.runReloading(50)
	}
}

// records returns the records of a snapshot.
func records(tb testing.TB, data []byte) []byte {
	tb.Helper()
	in, err := zstd.NewReader(bytes.NewReader(data[len(snapshotMagic)+1:]))
	if err != nil {
		tb.Fatal(err)
	}
	defer in.Close()
	out, err := io.ReadAll(in)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// someSnapshot is the end of a random history.
func someSnapshot(tb testing.TB, seed uint64, n int) []byte {
	tb.Helper()
	h := newHistory(tb, randomBytes(seed, n))
	for len(h.in) > 0 {
		h.op()
	}
	data, _ := snapshot(tb, h.x)
	return data
}

// FuzzLoadSnapshot loads any records: an accepted index is consistent, and written and loaded
// without a change.
func FuzzLoadSnapshot(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(records(f, someSnapshot(f, seed, 100+100*int(seed))))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		x, _, err := loadRecords(bytes.NewReader(in), Config{Stripes: 2}, 1<<20)
		if err != nil {
			if !errors.Is(err, ErrSnapshotCorrupt) && !errors.Is(err, ErrSnapshotVersion) {
				t.Fatal(err)
			}
			return
		}
		checkIndex(t, x)
		if y, _, _ := copyOf(t, x); !slices.Equal(facts(y), facts(x)) {
			t.Fatal("a snapshot of the loaded index differs")
		}
	})
}

// TestSnapshotDamage flips each bit and cuts at each byte: the load fails, or the index is
// unchanged.
func TestSnapshotDamage(t *testing.T) {
	data := someSnapshot(t, 1, 900)
	x, _ := mustLoad(t, data)
	want := facts(x)
	try := func(what string, data []byte) {
		x, restored, err := LoadSnapshot(bytes.NewReader(data), Config{Stripes: 2})
		switch {
		case err == nil && !slices.Equal(facts(x), want):
			t.Fatalf("%s is loaded, and other than it was", what)
		case err != nil && (x != nil || restored != nil || !errors.Is(err, ErrSnapshotCorrupt) && !errors.Is(err, ErrSnapshotVersion)):
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			try(fmt.Sprintf("byte %d with bit %d flipped", i, bit), bad)
		}
		if _, _, err := LoadSnapshot(bytes.NewReader(data[:i]), Config{}); !errors.Is(err, ErrSnapshotCorrupt) {
			t.Fatalf("cut after %d of %d bytes: %v", i, len(data), err)
		}
	}
	other := append([]byte(snapshotMagic), snapshotVersion+1)
	if _, _, err := LoadSnapshot(bytes.NewReader(append(other, data[9:]...)), Config{}); !errors.Is(err, ErrSnapshotVersion) {
		t.Fatalf("another version: %v", err)
	}
	if _, _, err := LoadSnapshot(bytes.NewReader(append(bytes.Clone(data), data[9:]...)), Config{}); !errors.Is(err, ErrSnapshotCorrupt) {
		t.Fatalf("another frame behind the end: %v", err)
	}
	if _, _, err := LoadSnapshot(strings.NewReader("listen: 127.0.0.1:8000\n"), Config{}); !errors.Is(err, ErrSnapshotCorrupt) {
		t.Fatalf("another file: %v", err)
	}
}

// TestSnapshotClaimsMore expects lengths without bytes to cost nothing, and an index beyond the limit
// to be refused.
func TestSnapshotClaimsMore(t *testing.T) {
	s := newRecordWriter(New(Config{Seed: 1}), nil)
	s.domain(s.x.Domain(DomainKey{}))
	s.buf = append(s.buf, recordWorker, 0, 0)
	head := slices.Clone(s.buf)
	s.buf = append(s.buf, recordStore, 0, 0, 0, 1)
	s.number(maxStretch)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := loadRecords(bytes.NewReader(s.buf), Config{Stripes: 2}, maxSnapshotBytes)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrSnapshotCorrupt) || got > 1<<20 {
		t.Fatalf("a stretch without blocks: %v, %d bytes allocated", err, got)
	}

	const blocks = 1 << 14
	s.buf = slices.Concat(head, []byte{recordStore, 0, 0, 0, 1})
	s.number(blocks)
	for i := range uint64(2 * blocks) {
		s.word(i)
	}
	if x, _, err := loadRecords(bytes.NewReader(s.buf), Config{Stripes: 2}, 1<<18); x != nil || !errors.Is(err, errSize) {
		t.Fatalf("%d blocks: %v, want %v", blocks, err, errSize)
	}
}

// TestSnapshotTakeNotesRuns expects a worker's lock to be held for work and memory by its runs and
// not by its blocks.
func TestSnapshotTakeNotesRuns(t *testing.T) {
	x := New(Config{Seed: 1})
	w, d := x.AddWorker(), x.Domain(DomainKey{})
	const blocks = 1 << 17
	st := Store{Worker: w, Domain: d}
	for i := range uint64(blocks) {
		st.Engine, st.Blocks = append(st.Engine, i), append(st.Blocks, Hash(i)*spread)
	}
	mustStore(t, x, st)
	s := newRecordWriter(x, new(plain))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.Take(w, "w", nil)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err != nil || len(s.taken[0].order) != 1 || got > blocks {
		t.Errorf("Take() of %d blocks in %d runs = %v, %d bytes allocated", blocks, x.Stats().Runs, err, got)
	}
}

// TestSnapshotOfBlocksThatWent: a worker is written as it was at Take, though its blocks, runs
// and domain are gone by then.
func TestSnapshotOfBlocksThatWent(t *testing.T) {
	x := New(Config{Seed: 1})
	w, d := x.AddWorker(), x.Domain(salt(0))
	mustStore(t, x, Store{Worker: w, Domain: d, Engine: hashesOf(1, 2, 3), Blocks: chain(1, 2, 3)})
	mustStore(t, x, Store{Worker: w, HasParent: true, Parent: 2, Engine: hashesOf(4), Blocks: chain(4)})
	x.Remove(w, TierGPU, hashesOf(2))
	want := facts(x)
	var out plain
	s := newRecordWriter(x, &out)
	if err := s.Take(w, "w", nil); err != nil {
		t.Fatal(err)
	}
	x.RemoveWorker(w)
	for i := range maxIdleDomains {
		x.Domain(salt(1 + i))
	}
	if _, ok := x.FindDomain(salt(0)); ok {
		t.Fatal("the domain is still known")
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	y, _, err := loadRecords(&out, Config{}, maxSnapshotBytes)
	if err != nil || !slices.Equal(facts(y), want) {
		t.Errorf("loaded %q, %v, want %q", facts(y), err, want)
	}
}

// failing is a file on a full disk.
type failing struct{ left int }

var errFull = errors.New("disk full")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestSnapshotWriteFails(t *testing.T) {
	if _, err := NewSnapshotWriter(New(Config{}), &failing{}); !errors.Is(err, errFull) {
		t.Errorf("NewSnapshotWriter() = %v, want %v", err, errFull)
	}
	x := New(Config{Seed: 1})
	w, d := x.AddWorker(), x.Domain(DomainKey{})
	r := rand.New(rand.NewPCG(1, 1))
	st := Store{Worker: w, Domain: d}
	for range 100_000 {
		st.Engine, st.Blocks = append(st.Engine, r.Uint64()), append(st.Blocks, Hash(r.Uint64()))
	}
	mustStore(t, x, st)
	s, err := NewSnapshotWriter(x, &failing{left: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Take(w+1, "", nil); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("Take() of a stranger = %v, want %v", err, ErrUnknownWorker)
	}
	if err := s.Take(w, strings.Repeat("x", maxText+1), nil); err == nil {
		t.Error("Take() with a name that cannot be loaded = nil")
	}
	if err := s.Take(w, "w", nil); err != nil {
		t.Error(err)
	}
	if err := s.Flush(); !errors.Is(err, errFull) {
		t.Errorf("Flush() = %v, want %v", err, errFull)
	}
	if _, err := s.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close() = %v, want %v", err, errFull)
	}
}

// TestSnapshotKeepsSeed expects a loaded index to hash prompts as before.
func TestSnapshotKeepsSeed(t *testing.T) {
	x := New(Config{})
	w, d := x.AddWorker(), x.Domain(DomainKey{Model: "m", BlockSize: 4, LoRA: "l", Salt: "s", Bigram: true})
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	mustStore(t, x, Store{Worker: w, Domain: d, Engine: []uint64{1, 2}, Blocks: x.AppendHashes(nil, tokens, 4)})
	data, _ := snapshot(t, x)
	y, restored := mustLoad(t, data)
	if len(restored) != 1 || restored[0].Name != "0" || string(restored[0].Meta) != "meta" {
		t.Fatalf("restored %+v", restored)
	}
	d, ok := y.FindDomain(DomainKey{Model: "m", BlockSize: 4, LoRA: "l", Salt: "s", Bigram: true})
	if !ok {
		t.Fatalf("domains are %v", slices.Collect(maps.Values(domainKeys(y))))
	}
	want := []Overlap{{Worker: restored[0].Worker, Blocks: 2, GPU: 2}}
	if got := y.Match(nil, d, y.AppendHashes(nil, tokens, 4)); !slices.Equal(got, want) {
		t.Fatalf("Match() = %v, want %v", got, want)
	}
}

// TestSnapshotFormat pins the format: change snapshotVersion with it.
func TestSnapshotFormat(t *testing.T) {
	x := New(Config{Seed: 0x0102030405060708})
	x.Domain(DomainKey{Model: "unused"})
	d := x.Domain(DomainKey{Model: "m", BlockSize: 16, LoRA: "l", Salt: "s", Bigram: true})
	other := x.Domain(DomainKey{Model: "n"})
	w := x.AddWorker()
	mustStore(t, x, Store{Worker: w, Domain: d, Engine: []uint64{1, 2, 3}, Blocks: []Hash{11, 12, 13}})
	mustStore(t, x, Store{Worker: w, Domain: d, Tier: TierCPU, Engine: []uint64{1}, Blocks: []Hash{11}})
	mustStore(t, x, Store{Worker: w, HasParent: true, Parent: 1, Engine: []uint64{4, 4}, Blocks: []Hash{14, 14}}) // 4 moves
	mustStore(t, x, Store{Worker: w, Domain: other, Engine: []uint64{3}, Blocks: []Hash{13}})
	x.Remove(w, TierGPU, []uint64{2})
	var out plain
	s := newRecordWriter(x, &out)
	if err := s.Take(w, "name", []byte("meta")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	word := func(n byte) string { return string([]byte{n, 0, 0, 0, 0, 0, 0, 0}) }
	standIn := "Vlt|\x9f`\x15\x17" // for the hole in front of 4, whose first engine hash has moved
	want := "\x08\x07\x06\x05\x04\x03\x02\x01" +
		string(binary.LittleEndian.AppendUint64(nil, x.fingerprint())) +
		"D\x01m\x10\x01l\x01s\x01" + "D\x01n\x00\x00\x00\x00" + "W\x04name\x04meta" +
		"S\x00\x00\x00\x01\x01" + word(11) + word(1) +
		"S\x01\x00\x00\x01\x01" + word(11) + word(1) +
		"S\x00\x00\x01" + word(1) + "\x01\x02" + word(12) + word(13) + word(2) + word(3) +
		"S\x00\x00\x01" + word(1) + "\x01\x02" + word(14) + word(14) + standIn + word(4) +
		"S\x00\x01\x00\x01\x01" + word(13) + word(3) +
		"R\x00\x01" + word(2) + "R\x00\x01" + standIn +
		"E\x01"
	if got := out.String(); got != want {
		t.Fatalf("wrote %q,\n want %q", got, want)
	}
	if _, _, err := loadRecords(strings.NewReader(word(1)+want[8:]), Config{}, maxSnapshotBytes); !errors.Is(err, ErrSnapshotVersion) {
		t.Fatalf("blocks hashed in another way: %v, want %v", err, ErrSnapshotVersion)
	}
	y, _, err := loadRecords(strings.NewReader(want), Config{}, maxSnapshotBytes)
	if err != nil || !slices.Equal(facts(y), facts(x)) {
		t.Fatalf("loaded %q, %v, want %q", facts(y), err, facts(x))
	}
}

// TestSnapshotWithMoreRemovalsThanCopies: a damaged number is refused, and not counted down, before
// the checksum at the end of the file is read.
func TestSnapshotWithMoreRemovalsThanCopies(t *testing.T) {
	x := New(Config{})
	x.AddWorker()
	x.Domain(DomainKey{Model: "tiny", BlockSize: 16})
	for times, fits := range map[int]bool{maxCopies: true, maxCopies + 1: false} {
		var out plain
		s := newRecordWriter(x, &out)
		if err := errors.Join(s.Take(x.workers.list()[0].id, "a", nil), s.Flush()); err != nil {
			t.Fatal(err)
		}
		s.domain(x.Domain(DomainKey{Model: "tiny", BlockSize: 16}))
		s.remove(TierGPU, times, 7)
		if _, err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_, _, err := loadRecords(&out, Config{}, maxSnapshotBytes)
		if fits != (err == nil) || !fits && !errors.Is(err, ErrSnapshotCorrupt) {
			t.Errorf("loading a removal of %d copies: %v", times, err)
		}
	}
}
