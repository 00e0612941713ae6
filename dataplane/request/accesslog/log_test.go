package accesslog_test

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

	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// patience is for a machine that does much else.
const patience = 60 * time.Second

// running opens a log and runs it until stop.
func running(t *testing.T) (l *accesslog.Log, path string, stop func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "access.jsonl")
	l, err := accesslog.Open(path, func(err error) { t.Error(err) })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, path, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func put(t *testing.T, l *accesslog.Log, input int) {
	t.Helper()
	e := l.Begin()
	require.NotNil(t, e)
	e.Input, e.Block, e.Cached, e.Status = input, 16, -1, 200
	l.Commit(e)
}

func lines(t *testing.T, path string) (out []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		var v map[string]any
		require.NoError(t, json.Unmarshal(line, &v), "%s", line)
		out = append(out, v)
	}
	return out
}

func TestLine(t *testing.T) {
	l, path, stop := running(t)
	e := l.Begin()
	*e = accesslog.Entry{
		Arrived: time.UnixMilli(1_700_000_000_123), TTFT: 12*time.Millisecond + 345*time.Microsecond, Took: time.Second, Status: 200, Input: 40, Output: 7,
		Block: 16, IDs: []uint64{1, 1<<63 - 1, 3}, Model: "a\"b\n\xff", Worker: "http://w:1", Rank: 2, Expected: 32, Cached: 16, Session: 255, Branch: 254, Turn: "next",
	}
	l.Commit(e)
	e = l.Begin()
	require.Equal(t, accesslog.Entry{Name: e.Name[:0], IDs: e.IDs[:0]}, *e, "an entry is given out empty")
	*e = accesslog.Entry{Arrived: time.UnixMilli(5), Status: 503, Block: 16, Cached: -1}
	l.Commit(e)
	e = l.Begin()
	*e = accesslog.Entry{Arrived: time.UnixMilli(6), Status: 200, Block: 16, Worker: "http://d:1", Prefill: "http://p:1", PreRank: 3, Cached: -1}
	l.Commit(e)
	stop()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `{"timestamp":1700000000123,"input_length":40,"output_length":7,"block_size":16,"hash_ids":[1,9223372036854775807,3],"status":200,`+
		`"ttft_ms":12.345,"duration_ms":1000.000,"model":"a\"b\u000a`+"\ufffd"+`","worker":"http://w:1","rank":2,"expected_tokens":32,"cached_tokens":16,"session":"ff","branch":"fe","turn":"next"}`+"\n"+
		`{"timestamp":5,"input_length":0,"output_length":0,"block_size":16,"hash_ids":[],"status":503,"duration_ms":0.000}`+"\n"+
		`{"timestamp":6,"input_length":0,"output_length":0,"block_size":16,"hash_ids":[],"status":200,"duration_ms":0.000,`+
		`"worker":"http://d:1","rank":0,"prefill":"http://p:1","prefill_rank":3,"expected_tokens":0}`+"\n", string(text))
	require.Len(t, lines(t, path), 3)
	require.EqualValues(t, 3, l.Written())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// FuzzLine: for any model name of a client, the line is JSON and has the name.
func FuzzLine(f *testing.F) {
	f.Add("qwen", uint64(1))
	f.Add("\x00\"\\\xf0\u2028", uint64(1)<<63)
	f.Fuzz(func(t *testing.T, name string, id uint64) {
		line := (&accesslog.Entry{Model: name, IDs: []uint64{id}, Cached: -1}).AppendTo(nil)
		var got struct {
			Model string   `json:"model"`
			IDs   []uint64 `json:"hash_ids"`
		}
		require.NoError(t, json.Unmarshal(line, &got))
		want, err := json.Marshal(name)
		require.NoError(t, err)
		var clean string
		require.NoError(t, json.Unmarshal(want, &clean))
		require.Equal(t, clean, got.Model)
		require.Equal(t, []uint64{id}, got.IDs)
	})
}

func TestReopen(t *testing.T) {
	l, path, stop := running(t)
	put(t, l, 1)
	require.Eventually(t, func() bool { return l.Written() == 1 }, patience, time.Millisecond)
	old := path + ".1"
	require.NoError(t, os.Rename(path, old))
	l.Reopen()
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, patience, time.Millisecond)
	put(t, l, 2)
	stop()
	assert.Len(t, lines(t, old), 1, "what was committed before is in the old file")
	got := lines(t, path)
	require.Len(t, got, 1)
	assert.InDelta(t, 2, got[0]["input_length"], 0)
}

// TestBeginNeverWaits: while Run does not write, further entries are dropped and counted, and earlier
// ones are not lost.
func TestBeginNeverWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.jsonl")
	l, err := accesslog.Open(path, func(err error) { t.Error(err) })
	require.NoError(t, err)
	for i := range accesslog.Pending {
		put(t, l, i+1)
	}
	for range 5 {
		require.Nil(t, l.Begin())
	}
	require.EqualValues(t, 5, l.Dropped())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, l.Run(ctx))
	require.Len(t, lines(t, path), accesslog.Pending)
}

func TestOpenFails(t *testing.T) {
	_, err := accesslog.Open(filepath.Join(t.TempDir(), "none", "x"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}
