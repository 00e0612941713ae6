//go:build tokenizers

package tokenizer_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// The comparison with the Python libraries on real tokenizers: `make test-tokenizers`.
// scripts/tokenizers installs them and writes their encodings of some 19,000 documents; the formats
// are in corpus.py and reference.py.

// facts is a reference's JSON file.
type facts struct {
	File    string   `json:"file"`
	Library string   `json:"library"`
	Before  []uint32 `json:"before"`
	After   []uint32 `json:"after"`
	Times   map[string]struct {
		Cold float64 `json:"cold_s"`
		Warm float64 `json:"warm_s"`
	} `json:"times"`
}

func referenceRoot(t testing.TB) string {
	t.Helper()
	root := os.Getenv("WARMPATH_TOKENIZERS")
	if root == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		root = filepath.Join(home, ".cache", "warmpath-tokenizers")
	}
	if _, err := os.Stat(filepath.Join(root, "reference")); err != nil {
		t.Fatalf("%s has no reference: run scripts/tokenizers/reference.sh first", root)
	}
	return root
}

// documents reads a corpus: length in four bytes and that many bytes, again and again.
func documents(t testing.TB, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for len(data) > 0 {
		n := binary.LittleEndian.Uint32(data)
		out = append(out, string(data[4:4+n]))
		data = data[4+n:]
	}
	return out
}

// expected is the library's encoding of one document.
type expected struct {
	ids []uint32
}

func references(t testing.TB, path string) []expected {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []expected
	for len(data) > 0 {
		e := expected{ids: make([]uint32, binary.LittleEndian.Uint32(data))}
		for i := range e.ids {
			e.ids[i] = binary.LittleEndian.Uint32(data[4+4*i:])
		}
		data = data[4+4*len(e.ids):]
		data = data[16:] // digests of the decoded texts
		out = append(out, e)
	}
	return out
}

func loadReference(t testing.TB, f facts) *tokenizer.Tokenizer {
	t.Helper()
	data, err := os.ReadFile(f.File)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestReference(t *testing.T) {
	root := referenceRoot(t)
	corpus := documents(t, filepath.Join(root, "corpus.bin"))
	bench := documents(t, filepath.Join(root, "bench.bin"))
	paths, err := filepath.Glob(filepath.Join(root, "reference", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no references in %s: %v", root, err)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%s; %s, GOMAXPROCS %d\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOMAXPROCS(0))
	size := 0
	for _, d := range bench {
		size += len(d)
	}
	fmt.Fprintf(&table, "MB of text per second of CPU, on %d documents of prose and code, %.1f MB: first pass / median of five more\n",
		len(bench), float64(size)/1e6)
	table.WriteString("| tokenizer | documents | ids equal | load | warmpath | peers |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var f facts
			if err := json.Unmarshal(data, &f); err != nil {
				t.Fatal(err)
			}
			want := references(t, strings.TrimSuffix(path, ".json")+".bin")
			began := time.Now()
			tok := loadReference(t, f)
			load := time.Since(began)
			equal := compare(t, tok, f, corpus, want)
			cold, warm := throughput(tok, bench)
			fmt.Fprintf(&table, "| %s | %d | %d | %d ms | %.1f / %.1f | %s |\n", name, len(want), equal, load.Milliseconds(),
				float64(size)/1e6/cold, float64(size)/1e6/warm, peers(f, size))
		})
	}
	t.Log("\n" + table.String())
	if dir := os.Getenv("WARMPATH_RESULTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "tokenizers.md"), []byte(table.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// compare counts the documents with the library's ids. Documents are shared among
// goroutines, so the cache is under load too.
func compare(t *testing.T, tok *tokenizer.Tokenizer, f facts, corpus []string, want []expected) (equal int) {
	t.Helper()
	if len(want) != len(corpus) {
		t.Fatalf("%d documents in the reference, %d in the corpus", len(want), len(corpus))
	}
	if got, want := tok.MustAppendSpecial(nil, ""), slices.Concat(f.Before, f.After); !slices.Equal(got, want) {
		t.Errorf("AppendSpecial of nothing = %v, want %v", got, want)
	}
	var next, ids atomic.Int64
	done := make(chan bool)
	const workers = 4
	for range workers {
		go func() {
			defer func() { done <- true }()
			for i := int(next.Add(1)) - 1; i < len(corpus); i = int(next.Add(1)) - 1 {
				doc := corpus[i]
				got := tok.MustAppend(nil, doc)
				if slices.Equal(got, want[i].ids) {
					ids.Add(1)
				} else {
					t.Errorf("document %d, %.80q: %s", i, doc, difference(tok, got, want[i].ids))
				}
			}
		}()
	}
	for range workers {
		<-done
	}
	return int(ids.Load())
}

// difference says where two lists of ids part.
func difference(tok *tokenizer.Tokenizer, got, want []uint32) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	part := func(ids []uint32) []uint32 { return ids[min(i, len(ids)):min(i+6, len(ids))] }
	return fmt.Sprintf("at %d, after %q: %v, want %v", i, tok.Text(want[max(0, i-3):min(i, len(want))]), part(got), part(want))
}

// throughput is the seconds of CPU for all documents on one goroutine: the first time, and the
// median of five more. The collector's work counts.
func throughput(tok *tokenizer.Tokenizer, docs []string) (cold, warm float64) {
	tok.ForgetPieces()
	runtime.GC()
	var times []float64
	var dst []uint32
	for range 6 {
		began := cpu()
		for _, d := range docs {
			dst = tok.MustAppend(dst[:0], d)
		}
		times = append(times, cpu()-began)
	}
	debug.FreeOSMemory()
	slices.Sort(times[1:])
	return times[0], times[3]
}

// cpu is the seconds of CPU that this process has had.
func cpu() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

func peers(f facts, size int) string {
	var out []string
	for name, s := range f.Times {
		out = append(out, fmt.Sprintf("%s %.1f / %.1f", name, float64(size)/1e6/s.Cold, float64(size)/1e6/s.Warm))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
