package clientkey_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// hashOf returns the hash of a secret as a line has it.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// put replaces a file as an operator's tools do, with another time of change each time.
func put(t *testing.T, file, text string) string {
	t.Helper()
	if file == "" {
		file = filepath.Join(t.TempDir(), "keys")
	}
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	return file
}

func read(t *testing.T, text string) *clientkey.Keys {
	t.Helper()
	k, err := clientkey.Read(put(t, "", text), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return k
}

func TestFind(t *testing.T) {
	k := read(t, "# clients\n\nalice "+hashOf("a")+","+strings.ToUpper(hashOf("b"))+" priority=-3 deadline=2m\n\tbob  "+hashOf("c")+"\n")
	for secret, want := range map[string]string{"a": "alice", "b": "alice", "c": "bob", "": "", "x": "", hashOf("a"): "", "alice": ""} {
		key := k.Find([]byte(secret))
		if want == "" {
			assert.Nil(t, key, secret)
			continue
		}
		require.NotNil(t, key, secret)
		assert.Equal(t, want, key.Name)
	}
	alice := k.Find([]byte("a"))
	assert.Equal(t, []any{-3, true, 2 * time.Minute}, []any{alice.Priority, alice.HasPriority, alice.Deadline})
	assert.False(t, k.Find([]byte("c")).HasPriority)
}

func TestLinesThatAreRefused(t *testing.T) {
	h := hashOf("a")
	for line, want := range map[string]string{
		"":                                      "no key",
		"# only a comment":                      "no key",
		"alice":                                 "NAME HASH",
		"alice secret":                          "64 hex digits",
		"alice " + h[:62]:                       "64 hex digits",
		"alice " + h + ",":                      "64 hex digits",
		"a/b " + h:                              "letters, digits",
		strings.Repeat("a", 65) + " " + h:       "letters, digits",
		"operator " + h:                         "letters, digits",
		"alice " + h + "\nalice " + hashOf("b"): "line 2: this name has a line before",
		"alice " + h + "\nbob " + h:             "line 2: this key is there before",
		"alice " + h + "," + h:                  "this key is there before",
		"alice " + h + " rpm=1":                 "want models=",
		"alice " + h + " models=":               "want models=",
		"alice " + h + " models=a,,b":           "want models=",
		"alice " + h + " requests-per-minute=0": "want models=",
		"alice " + h + " tokens-per-minute=-1":  "want models=",
		"alice " + h + " concurrency=many":      "want models=",
		"alice " + h + " priority=1.5":          "want models=",
		"alice " + h + " deadline=30":           "want models=",
		"alice " + h + " deadline=-1s":          "want models=",
		"alice " + h + " priority=1 priority=2": "want models=",
		"alice " + h + " cache-salt=none":       "want models=",
		"alice " + h + " concurrency":           "want models=",
	} {
		_, err := clientkey.Read(put(t, "", line), slog.New(slog.DiscardHandler))
		require.ErrorIs(t, err, clientkey.ErrFile, line)
		assert.ErrorContains(t, err, want, line)
		assert.ErrorContains(t, err, "--client-keys")
		assert.NotContains(t, err.Error(), h[:62], "no hash is said")
		assert.NotContains(t, err.Error(), "secret", "nor a key that stands in its place")
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		_, err := clientkey.Read(file, slog.New(slog.DiscardHandler))
		assert.ErrorIs(t, err, clientkey.ErrFile)
	}
}

func TestLine(t *testing.T) {
	secret, line, err := clientkey.Line("alice", []string{"models=a,b", "priority=0", "concurrency=2"})
	require.NoError(t, err)
	other, _, err := clientkey.Line("alice", nil)
	require.NoError(t, err)
	assert.NotEqual(t, secret, other)
	assert.GreaterOrEqual(t, len(secret), 43, "256 bits")
	key := read(t, line).Find([]byte(secret))
	require.NotNil(t, key)
	assert.True(t, key.Allows("b", ""))
	for _, args := range [][]string{{""}, {"a b"}, {"#a"}, {"a", "x=1"}, {"a", "priority=1 deadline=1s"}, {"a", ""}, {"operator"}, {"a", "priority=1\nbob"}} {
		_, _, err := clientkey.Line(args[0], args[1:])
		assert.Error(t, err, args)
	}
}

func TestAllows(t *testing.T) {
	all := read(t, "a "+hashOf("a")).Find([]byte("a"))
	assert.True(t, all.Allows("x", "y"))
	some := read(t, "a "+hashOf("a")+" models=llama,qwen:fr,s3://b:c").Find([]byte("a"))
	for _, c := range []struct {
		model, adapter string
		want           bool
	}{
		{"llama", "", true},
		{"qwen:fr", "", true},
		{"qwen", "fr", true},
		{"s3://b:c", "", true},
		{"", "", false},
		{"lla", "", false},
		{"lla", "ma", false},
		{"llama", "fr", false},
		{"llama:fr", "", false},
		{"qwen", "", false},
		{"qwen", "f", false},
		{"qwen", "", false},
		{"qwen:fr", "fr", false},
		{"llama,qwen", "", false},
		{"LLAMA", "", false},
		{"qwen", ":fr", false},
		{"", "llama", false},
	} {
		assert.Equal(t, c.want, some.Allows(c.model, c.adapter), c)
	}
}

func TestSalt(t *testing.T) {
	text := "alice " + hashOf("a") + "\nbob " + hashOf("b") + " cache-salt=own\nali " + hashOf("c") + "\n"
	k := read(t, text)
	seen := map[string]bool{}
	for _, secret := range []string{"a", "b", "c"} {
		for _, own := range [][]byte{nil, {}, []byte(`"x"`), []byte(`"y"`), []byte("ce"), []byte("\x00ce")} {
			salt := k.Find([]byte(secret)).Salt(own)
			assert.False(t, seen[salt], "%s %q has another's salt", secret, own)
			assert.True(t, strings.HasPrefix(salt, clientkey.SaltPrefix))
			assert.Equal(t, salt, read(t, strings.ReplaceAll(text, hashOf("a"), hashOf("rotated")+","+hashOf("a"))).Find([]byte(secret)).Salt(own), "in all routers, and whatever the key")
			seen[salt] = true
		}
	}
	assert.True(t, k.Find([]byte("b")).OwnSalt)
	assert.False(t, k.Find([]byte("a")).OwnSalt)
}

// refusal returns the limit that a call was beyond.
func refusal(t *testing.T, err error) clientkey.LimitError {
	t.Helper()
	var e *clientkey.LimitError
	require.ErrorAs(t, err, &e)
	return *e
}

// TestRates: a minute's worth at once, and then one request each 6 s.
func TestRates(t *testing.T) {
	key := read(t, "a "+hashOf("a")+" requests-per-minute=10").Find([]byte("a"))
	now := time.Now()
	for range 10 {
		require.NoError(t, key.Begin(now))
		key.End()
	}
	e := refusal(t, key.Begin(now))
	assert.Equal(t, clientkey.LimitError{Reason: clientkey.ReasonRequests, Limit: 10, RetryAfter: 6 * time.Second, Reset: time.Minute}, e)
	refusal(t, key.Begin(now.Add(6*time.Second-time.Millisecond)))
	require.NoError(t, key.Begin(now.Add(e.RetryAfter)), "the answer says when there is room")
	refusal(t, key.Begin(now.Add(e.RetryAfter)))
	require.NoError(t, key.Begin(now.Add(10*time.Minute)), "a full bucket")
	assert.Equal(t, uint64(3), key.Counts().Refused[clientkey.ReasonRequests])
	assert.Equal(t, uint64(12), key.Counts().Requests)
}

// TestTokens: prompts are paid before, answers afterwards, and a debt is waited for.
func TestTokens(t *testing.T) {
	key := read(t, "a "+hashOf("a")+" tokens-per-minute=600").Find([]byte("a")) // 10 each second
	now := time.Now()
	require.NoError(t, key.Begin(now))
	require.NoError(t, key.Take(now, 400))
	e := refusal(t, key.Take(now, 201))
	assert.Equal(t, clientkey.LimitError{Reason: clientkey.ReasonTokens, Limit: 600, Remaining: 200, RetryAfter: 100 * time.Millisecond, Reset: 40 * time.Second}, e)
	require.NoError(t, key.Take(now, 200))
	key.GiveBack(now, 200) // no worker has computed it
	key.Answered(now, 400, 300, 600)
	assert.Equal(t, 30*time.Second+100*time.Millisecond, refusal(t, key.Begin(now)).RetryAfter, "300 more than there were")
	refusal(t, key.Begin(now.Add(30*time.Second)))
	later := now.Add(30*time.Second + 100*time.Millisecond)
	require.NoError(t, key.Begin(later))
	require.NoError(t, key.Take(later, 1))
	long := later.Add(time.Hour)
	require.NoError(t, key.Take(long, 6000), "a prompt of more than a minute's worth waits for a full bucket only")
	assert.Equal(t, 9*time.Minute+100*time.Millisecond, refusal(t, key.Begin(long)).RetryAfter)
	c := key.Counts()
	assert.Equal(t, []uint64{300, 600}, []uint64{c.PromptTokens, c.Completion})
}

func TestConcurrency(t *testing.T) {
	key := read(t, "a "+hashOf("a")+" concurrency=2 requests-per-minute=3").Find([]byte("a"))
	now := time.Now()
	require.NoError(t, key.Begin(now))
	require.NoError(t, key.Begin(now))
	for range 5 {
		assert.Equal(t, clientkey.ReasonConcurrency, refusal(t, key.Begin(now)).Reason)
	}
	key.End()
	require.NoError(t, key.Begin(now), "a request that was refused takes nothing")
	assert.Equal(t, 2, key.Counts().InFlight)
}

// follow has keys follow their file until stop, in a bubble. look returns when they have looked.
func follow(t *testing.T, k *clientkey.Keys) (look, stop func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx) })
	return func() { time.Sleep(2 * time.Second); synctest.Wait() }, func() { end(); running.Wait() }
}

// TestFollow: the file is read again when it changes, a bad one changes nothing and is said, and rates and places go on.
func TestFollow(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var text testkit.Text
		file := put(t, "", "alice "+hashOf("a")+" concurrency=1\nbob "+hashOf("b")+"\n")
		k, err := clientkey.Read(file, text.Log())
		require.NoError(t, err)
		look, stop := follow(t, k)
		defer stop()
		require.NoError(t, k.Find([]byte("a")).Begin(time.Now()))

		put(t, file, "alice "+hashOf("new")+" concurrency=2\n")
		look()
		assert.Nil(t, k.Find([]byte("a")))
		assert.Nil(t, k.Find([]byte("b")))
		alice := k.Find([]byte("new"))
		require.NotNil(t, alice)
		require.NoError(t, alice.Begin(time.Now()))
		assert.Error(t, alice.Begin(time.Now()), "the request of before has its place")

		for _, bad := range []string{"alice nonsense\n", "", "#\n"} {
			said := strings.Count(text.String(), "cannot reload")
			put(t, file, bad)
			look()
			assert.NotNil(t, k.Find([]byte("new")), bad)
			assert.Equal(t, said+1, strings.Count(text.String(), "cannot reload"), "it is said, once")
		}
		require.NoError(t, os.Remove(file))
		look()
		assert.NotNil(t, k.Find([]byte("new")), "a file that is gone")
		put(t, file, "carol "+hashOf("c")+"\n")
		look()
		assert.NotNil(t, k.Find([]byte("c")))
		assert.Len(t, k.All(), 2, "carol and operators")
	})
}

// TestKeysThatComeBack: a name that was taken out of the file and put back has its use of before, as
// far as that has not come back meanwhile.
func TestKeysThatComeBack(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		with, without := "alice "+hashOf("a")+" requests-per-minute=60 concurrency=80\nbob "+hashOf("b")+"\n", "bob "+hashOf("b")+"\n"
		file := put(t, "", with)
		k, err := clientkey.Read(file, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		look, stop := follow(t, k)
		defer stop()
		for range 60 {
			require.NoError(t, k.Find([]byte("a")).Begin(time.Now()))
		}
		for _, text := range []string{without, without + "# another change\n", with} {
			put(t, file, text)
			look()
		}
		missing, inFlight, _ := k.Find([]byte("a")).Known(time.Now())
		assert.InDelta(t, 60-6, missing, 1e-6, "six seconds' worth has come back")
		assert.Equal(t, 60, inFlight)

		for range 60 {
			k.Find([]byte("a")).End()
		}
		time.Sleep(time.Minute)
		for _, text := range []string{without, with} {
			put(t, file, text)
			look()
		}
		assert.Zero(t, k.Find([]byte("a")).Counts(), "a name without use was forgotten")
	})
}

func TestWritableFileIsSaid(t *testing.T) {
	var text testkit.Text
	file := put(t, "", "alice "+hashOf("a"))
	_, err := clientkey.Read(file, text.Log())
	require.NoError(t, err)
	assert.Empty(t, text.String())
	require.NoError(t, os.Chmod(file, 0o666)) //nolint:gosec // the log warns of this
	_, err = clientkey.Read(file, text.Log())
	require.NoError(t, err)
	assert.Contains(t, text.String(), "all users")
}
