package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// nixlWays are those of a size; pages are measured at the largest one.
var (
	nixlWays  = []string{"memcpy", plainWay, "TCP", "NIXL read", "NIXL write"}
	pagesWays = []string{
		plainWay, "NIXL read, pages neighbours", plainWay + ", pages scattered here", "NIXL read, pages scattered here",
		plainWay + ", pages scattered on both sides", "NIXL read, pages scattered on both sides",
	}
)

// checkNIXL holds a result against what was asked for.
func checkNIXL(t *testing.T, r *nixlResult, sizes ...int) {
	t.Helper()
	var want, got []string
	for _, size := range sizes {
		for _, way := range nixlWays {
			want = append(want, way+" "+bytesText(size))
		}
	}
	for _, way := range pagesWays {
		want = append(want, way+" "+bytesText(sizes[len(sizes)-1]))
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		got = append(got, row.Way+" "+bytesText(row.Size))
		assert.GreaterOrEqual(t, row.Count, leastRounds*row.Batch, got[i])
		assert.Positive(t, row.Share, got[i])
		assert.Positive(t, row.Median, got[i])
		assert.LessOrEqual(t, row.Median, row.Best, got[i])
		if row.Way == plainWay {
			assert.InDelta(t, 1, row.Share, 1e-9, "it is what the others are compared with")
		}
	}
	assert.Equal(t, want, got)
}

// TestBenchNIXL measures between two real processes, with the real library.
func TestBenchNIXL(t *testing.T) {
	library := nixltest.Library(t)
	file := filepath.Join(t.TempDir(), "out.json")
	var out bytes.Buffer
	c := newRoot()
	c.SetArgs([]string{"bench", "nixl", "--nixl-lib", library, "--time", "5ms", "--largest", "1MiB", "--batch", "2", "--json", file})
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	require.NoError(t, c.Execute())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r nixlResult
	require.NoError(t, json.Unmarshal(text, &r))
	checkNIXL(t, &r, 64, 64<<10, 1<<20)
	assert.Equal(t, library, r.Library)
	assert.NotEqual(t, link.Unknown, r.Path)
	assert.Contains(t, out.String(), pathText[r.Path])
}

// TestBenchNIXLWays measures between two agents of this process, without the library; the bytes that were read are the other's.
func TestBenchNIXLWays(t *testing.T) {
	o := &nixlOptions{backend: "UCX", batch: 1, largest: "256KiB", time: time.Millisecond, pages: true}
	require.NoError(t, o.check())
	f := nixltest.NewLoopback()
	mine, memory, err := o.open(f, "mine")
	require.NoError(t, err)
	defer func() { assert.NoError(t, mine.Close()) }()
	theirs, other, err := o.open(f, "theirs")
	require.NoError(t, err)
	defer func() { assert.NoError(t, theirs.Close()) }()
	far, err := offerMemory(theirs, other)
	require.NoError(t, err)
	defer far.in.Close()
	remote, err := mine.Load(far.Metadata)
	require.NoError(t, err)
	r := &nixlResult{}
	b := nixlBench{o: o, ctx: context.Background(), result: r, remote: remote, memory: memory, far: far, progress: func(string) {}}
	require.NoError(t, b.all())
	checkNIXL(t, r, 64, 64<<10, 256<<10)

	for i := range other.Bytes() {
		other.Bytes()[i] = byte(i / 3)
	}
	for _, pieces := range [][]nixl.Piece{b.scatter(false, false), b.scatter(true, false), b.scatter(true, true)} {
		want := make([]byte, len(other.Bytes()))
		for _, p := range pieces {
			copy(want[p.Local:][:p.Len], other.Bytes()[p.Remote:])
		}
		for name, read := range map[string]func() error{
			plainWay: func() error { return b.readPieces(pieces) },
			"NIXL": func() error {
				_, err := b.nixl("", link.Job{Op: nixl.Read, Size: o.bytes, Pieces: pieces}).once()
				return err
			},
		} {
			clear(memory.Bytes())
			require.NoError(t, read(), name)
			assert.True(t, bytes.Equal(want, memory.Bytes()), name)
		}
	}
	clear(memory.Bytes())
	require.NoError(t, b.readv(memory.Bytes()))
	assert.True(t, bytes.Equal(other.Bytes(), memory.Bytes()))
}

func TestNIXLOptionsRefuse(t *testing.T) {
	good := nixlOptions{batch: 1, largest: "1MiB", time: time.Second}
	require.NoError(t, good.check())
	for _, change := range []func(*nixlOptions){
		func(o *nixlOptions) { o.batch = 0 },
		func(o *nixlOptions) { o.time = 0 },
		func(o *nixlOptions) { o.largest = "5000" },
		func(o *nixlOptions) { o.largest = "1TiB" },
	} {
		bad := good
		change(&bad)
		assert.ErrorIs(t, bad.check(), errNIXLOptions)
	}
	bad := nixlOptions{batch: 1, largest: "much", time: time.Second}
	assert.ErrorIs(t, bad.check(), errSize)
}
