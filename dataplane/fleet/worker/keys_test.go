package worker_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestReadKeys(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	keys, err := worker.ReadKeys(write("# of the cluster\nall\r\n\nhttp://a:1/ one two\nHTTP://b:1 - admin\nhttp://c:1 -\n"), log)
	require.NoError(t, err)
	for url, want := range map[string][2]string{
		"http://a:1": {"Bearer one", "Bearer two"}, "http://b:1": {"", "Bearer admin"}, "http://c:1": {"", ""},
		"http://d:1": {"Bearer all", "Bearer all"}, "https://a:1": {"Bearer all", "Bearer all"},
	} {
		key := keys.Of(url)
		assert.Equal(t, want, [2]string{string(key.API()), string(key.Admin())}, url)
		assert.Equal(t, url < "http://d", keys.Named(url), url)
	}
	assert.Nil(t, (*worker.Keys)(nil).Of("http://a:1").API(), "no file has no key")
	for _, bad := range []string{
		"", "# nothing\n", "one two three\n", "http://a:1\n", "http://a:1 one two three\n", "one\ntwo\n", "http://a:1 x\nhttp://a:1/ y\n",
		"secr\x01et\n", "secrét\n", "ftp://a:1 secret\n", "http://a:1/path secret\n",
	} {
		_, err := worker.ReadKeys(write(bad), log)
		require.Error(t, err, bad)
		assert.ErrorContains(t, err, "--worker-api-key-file")
		assert.NotContains(t, err.Error(), "secr", "an error has no key")
	}
	_, err = worker.ReadKeys(filepath.Join(t.TempDir(), "none"), log)
	require.ErrorIs(t, err, worker.ErrKeys)
	_, err = worker.ReadKeys("/dev/zero", log)
	require.ErrorIs(t, err, worker.ErrKeys, "it would be read forever")
}

// TestKeyIsReadUnlocked adds a worker whose key comes from code that needs the registry's lock: the
// file of keys may be slow, and only this call waits for it.
func TestKeyIsReadUnlocked(t *testing.T) {
	var r *worker.Registry
	var before atomic.Bool // the registry had no such worker yet
	r = worker.NewRegistry(worker.Config{
		Log: slog.New(slog.DiscardHandler), Interval: time.Hour, LoadEvery: -1, Dial: newFake().dial,
		Key: func(url string) *worker.Key {
			if _, err := r.Get(url); err != nil { // waits for the lock
				before.Store(true)
			}
			return (*worker.Keys)(nil).Of(url)
		},
	}, nil)
	_, err := r.Add("http://a:1")
	require.NoError(t, err)
	assert.True(t, before.Load())
	require.NoError(t, r.Remove("http://a:1"))
}
