package index_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/index"
)

func encode(tb testing.TB, w *index.Workload) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := w.Write(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// little returns a small file with ops of all kinds.
func little(tb testing.TB) []byte {
	tb.Helper()
	var trace []index.Request
	for i := range 40 {
		ids := []uint64{uint64(i % 3), uint64(i % 5)}
		trace = append(trace, index.Request{At: time.Duration(i) * time.Millisecond, Input: 512 * 2, Output: 128, IDs: ids})
	}
	w := generate(tb, trace, index.Options{Workers: 2, Blocks: 12, IDBlocks: 4, Random: true, Holes: true})
	return encode(tb, w)
}

func TestFileRoundTrip(t *testing.T) {
	want := generate(t, index.Shared(300), index.Options{Workers: 70, Blocks: 2000, IDBlocks: 8, Holes: true})
	name := filepath.Join(t.TempDir(), "w.bin")
	if err := want.WriteFile(name); err != nil {
		t.Fatal(err)
	}
	got, err := index.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("a workload that was written and read differs")
	}
}

func TestFileErrors(t *testing.T) {
	if _, err := index.ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadFile of no file = %v", err)
	}
	name := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(name, []byte("KVWL"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := index.ReadFile(name); !errors.Is(err, index.ErrFormat) || !strings.Contains(err.Error(), "make it again") {
		t.Errorf("ReadFile of a bad file = %v, want what to do", err)
	}
	w := generate(t, index.Shared(10), index.Options{Workers: 1, Blocks: 4000, IDBlocks: 8})
	if err := w.WriteFile(filepath.Join(name, "below")); err == nil {
		t.Error("WriteFile below a file succeeds")
	}
	if err := w.Write(full{}); !errors.Is(err, errFull) {
		t.Errorf("Write to a full disk = %v, want its error", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// Offsets in a file; see the format in file.go.
const (
	atWorkers, atRequests, atOps, atWarm, atTests, atFirstRequest = 8, 16, 20, 24, 28, 48
)

func TestParseRefuses(t *testing.T) {
	good := little(t)
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(good[at:])) }
	blocks := 0
	for i := range u32(atRequests) {
		blocks += u32(atFirstRequest + 8*i)
	}
	firstOp := atFirstRequest + 8*u32(atRequests) + 16*blocks
	firstTest := firstOp + 16*u32(atOps)
	set := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[at:], v)
			return b
		}
	}
	tests := []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"empty", func([]byte) []byte { return nil }, "does not begin with"},
		{"another format", func(b []byte) []byte { b[7]++; return b }, `does not begin with "KVWL0001"`},
		{"cut in requests", func(b []byte) []byte { return b[:atFirstRequest+9] }, "it ends within"},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, "after the requests, want"},
		{"too long", func(b []byte) []byte { return append(b, 0) }, "after the requests, want"},
		{"huge number of requests", set(atRequests, 1<<32-1), "it ends within"},
		{"huge number of ops", set(atOps, 1<<32-1), "after the requests, want"},
		{"huge number of tests", set(atTests, 1<<32-1), "after the requests, want"},
		{"more warm ops than ops", set(atWarm, 1<<20), "warm ops of"},
		{"prompt longer than request", set(atFirstRequest+4, 1<<20), "has a prompt of"},
		{"no workers", set(atWorkers, 0), "of 0 workers"},
		{"unknown kind", set(firstOp, 4), "Kind:4"},
		{"worker", set(firstOp, 2<<16), "Worker:2 "},
		{"request of an op", set(firstOp+4, 40), "Req:40 "},
		{"start behind end", set(firstOp+8, 1<<20), "Start:1048576 "},
		{"end", set(firstOp+12, 1<<20), "End:1048576"},
		{"request of a test", set(firstTest, 40), "test 0 is of request 40 among 40"},
	}
	for _, tt := range tests {
		_, err := index.Parse(tt.change(bytes.Clone(good)))
		if !errors.Is(err, index.ErrFormat) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Parse = %v, want ErrFormat with %q", tt.name, err, tt.want)
		}
	}
}

// FuzzParse parses any bytes: an accepted workload is the same when it is written and read, and
// its ops and tests refer to existing blocks.
func FuzzParse(f *testing.F) {
	good := little(f)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("KVWL0001"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := index.Parse(data)
		if err != nil {
			if !errors.Is(err, index.ErrFormat) {
				t.Fatalf("Parse = %v, want ErrFormat", err)
			}
			return
		}
		if again, err := index.Parse(encode(t, w)); err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("a file that was read is written otherwise: %v", err)
		}
		for _, o := range w.Ops {
			_, _ = w.EngineHashes(o.Req)[o.Start:o.End], w.Content(o.Req)[o.Start:o.End]
		}
		for _, truth := range w.Tests {
			_ = w.Prompt(truth.Req)
		}
	})
}
