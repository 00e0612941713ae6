package clientkey_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKeyDoesNotAllocate: a key costs its request no allocation.
func TestKeyDoesNotAllocate(t *testing.T) {
	k := read(t, "a "+hashOf("a")+" models=x,y requests-per-minute=1000000 tokens-per-minute=1000000 concurrency=2")
	secret, now := []byte("a"), time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		key := k.Find(secret)
		if key.Begin(now) != nil || !key.Allows("y", "") || key.Take(now, 1) != nil {
			panic("refused")
		}
		key.Answered(now, 1, 1, 1)
		key.End()
	}))
}

// TestKnownTokenIsNotVerified: a token that is known costs no signature check, which allocates.
func TestKnownTokenIsNotVerified(t *testing.T) {
	i, now := newIssuer(t), time.Now()
	k := read(t, "a "+hashOf("a"))
	k.AcceptTokens(i.verifier())
	token := i.token("alice", now.Add(time.Hour), "", "")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := k.Authenticate(token, now); err != nil {
			panic(err)
		}
	}))
}
