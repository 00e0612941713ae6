package clientkey

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/cluster/codec"
)

// FuzzUseMessage: bytes are refused, or a message that says the same when it is written again.
func FuzzUseMessage(f *testing.F) {
	m := useMessage{id: []byte("router"), number: 7, flags: flagWhole | flagFull, names: []useEntry{
		{name: []byte("alice"), inFlight: 3, requests: 12, tokens: -4.5, missingRequests: 2.25, missingTokens: 1e9}, {name: []byte("b")},
	}}
	f.Add(m.append(nil))
	m.names, m.flags = nil, flagLast
	f.Add(m.append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again useMessage
		if got.decode(data) != nil {
			return
		}
		require.NoError(t, again.decode(got.append(nil)))
		require.Equal(t, got, again)
	})
}

// TestPeersForgetNames: the memory of another router is bounded by the names that this one knows.
func TestPeersForgetNames(t *testing.T) {
	k, err := Read("", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	k.AcceptTokens(nil)
	s := newSharing(k, nil, "here", slog.New(slog.DiscardHandler))
	number := int64(0)
	hear := func(flags byte, names ...useEntry) {
		number++
		m := useMessage{id: []byte("there"), number: number, flags: flags, names: names}
		s.onMessage("", m.append(nil))
	}
	for n := range 100 {
		name := fmt.Sprint(tokenPrefix, n)
		k.tokens.names[name] = &Key{Name: name, concurrency: 2, used: &usage{group: k.group}}
		hear(0, useEntry{name: []byte(name), inFlight: 1})
		require.Contains(t, s.peers["there"].names, name)
		if n > 0 {
			delete(k.tokens.names, name)
		}
	}
	hear(flagWhole, useEntry{name: []byte(tokenPrefix + "0"), inFlight: 1}, useEntry{name: []byte(tokenPrefix + "1"), inFlight: 1})
	assert.Len(t, s.peers["there"].names, 1)
	assert.Equal(t, 1, k.tokens.names[tokenPrefix+"0"].used.elsewhere)
}

// TestWildUse: what another router tells leaves a key with numbers that come back with time, and that
// this router can tell on.
func TestWildUse(t *testing.T) {
	k, err := Read("", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	k.AcceptTokens(nil)
	key := &Key{Name: tokenPrefix + "a", requests: 60, tokens: 60, used: &usage{group: k.group}}
	k.tokens.names[key.Name] = key
	s := newSharing(k, nil, "here", slog.New(slog.DiscardHandler))
	for i, wild := range []float64{1.7e308, 1e300, codec.Largest, codec.Largest} {
		for j, sign := range []float64{-1, 1, -1, 1} {
			m := useMessage{id: fmt.Appendf(nil, "there%d", i), number: int64(j + 1), names: []useEntry{{
				name: []byte(key.Name), requests: sign * wild, tokens: sign * wild, missingRequests: wild, missingTokens: wild,
			}}}
			s.onMessage("", m.append(nil))
			e := key.use(time.Now())
			for _, f := range []float64{e.requests, e.tokens, e.missingRequests, e.missingTokens} {
				require.LessOrEqual(t, math.Abs(f), float64(codec.Largest), "after %v", sign*wild)
			}
			told := useMessage{id: []byte("here"), number: 1, names: []useEntry{e}}
			require.NoError(t, new(useMessage).decode(told.append(nil)))
		}
	}
}

// TestManyNamesAreTold: more names in use than one message of NATS has room for are told all the same,
// and those whose requests have ended too.
func TestManyNamesAreTold(t *testing.T) {
	const names = 20_000
	router := func(id string, bus Bus) (*sharing, []*Key) {
		k, err := Read("", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		k.AcceptTokens(nil)
		var keys []*Key
		for n := range names {
			key := &Key{Name: fmt.Sprintf("%s%0*d", tokenPrefix, maxName-len(tokenPrefix), n), requests: 60, concurrency: 2, used: &usage{group: k.group}}
			k.tokens.names[key.Name] = key
			keys = append(keys, key)
		}
		return newSharing(k, bus, id, slog.New(slog.DiscardHandler)), keys
	}
	there, seen := router("there", nil)
	here, keys := router("here", wire{t, there})
	now := time.Now()
	for _, key := range keys {
		require.NoError(t, key.Begin(now))
	}
	elsewhere := func() (n int) {
		for _, key := range seen {
			n += key.used.elsewhere
		}
		return n
	}
	for _, flags := range []byte{flagWhole | flagFull, flagWhole} {
		here.publish(now, flags)
		require.Equal(t, names, elsewhere())
		require.True(t, there.peers["here"].complete)
	}
	for _, key := range keys[:names-10] {
		key.End()
	}
	here.publish(now, flagWhole)
	require.Equal(t, 10, elsewhere())
}

// wire brings messages to another router, as NATS does.
type wire struct {
	t  *testing.T
	to *sharing
}

func (w wire) PublishOwn(_ string, data []byte) error {
	require.Less(w.t, len(data), 1<<20)
	w.to.onMessage("", data)
	return nil
}

func (wire) SubscribeOwn(string, func(string, []byte)) (func(), error) { return func() {}, nil }

// hearing are the keys of a router with one name, and a function by which another one with the token of an owner
// tells of it.
func hearing(t *testing.T, key *Key) (hear func(id, owner string, e useEntry)) {
	t.Helper()
	k, err := Read("", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	k.AcceptTokens(nil)
	key.Name, key.used = tokenPrefix+"a", &usage{group: k.group}
	k.tokens.names[key.Name] = key
	s := newSharing(k, nil, "here", slog.New(slog.DiscardHandler))
	numbers := map[string]int64{}
	return func(id, owner string, e useEntry) {
		numbers[id]++
		e.name = []byte(key.Name)
		m := useMessage{id: []byte(id), number: numbers[id], flags: flagFull, names: []useEntry{e}}
		s.onMessage(owner, m.append(nil))
	}
}

// TestFalseUseEnds: what a router of the cluster's secret has told of a key locks it for minutes, and not for good.
func TestFalseUseEnds(t *testing.T) {
	key := &Key{requests: 60, tokens: 10_000, concurrency: 1}
	hear := hearing(t, key)
	hear("rogue-0123456789abcdef", "another", useEntry{inFlight: 9})
	require.Equal(t, sharers{1, 1}, key.used.group.sharers(), "a name of another token")
	require.NoError(t, key.Begin(time.Now()))
	key.End()
	for i := range 5 {
		use := float64(i) * 1e12
		hear("there", "", useEntry{inFlight: 9, requests: use, tokens: use, missingRequests: 1e12, missingTokens: 1e12})
	}
	require.Error(t, key.Begin(time.Now()))
	e := key.use(time.Now())
	require.LessOrEqual(t, e.missingRequests, 120.0)
	require.LessOrEqual(t, e.missingTokens, float64(20_000+longestUse))
}

// TestNamesThatComeAndGo: a router with a token that begins and ends under one name after the other is taken
// for a bounded number of routers a minute.
func TestNamesThatComeAndGo(t *testing.T) {
	k, err := Read("", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	var log strings.Builder
	s, now := newSharing(k, nil, "here", slog.New(slog.NewTextHandler(&log, nil))), time.Now()
	for minute := range 3 {
		s.expire(now.Add(time.Duration(minute) * (codec.LeftFor + time.Second)))
		for i := range 1000 {
			m := useMessage{id: fmt.Appendf(nil, "rogue-%016x", i<<8|minute), number: 1}
			s.onMessage("rogue", m.append(nil))
			m.number, m.flags = 2, flagLast
			s.onMessage("rogue", m.append(nil))
		}
		require.Equal(t, (minute+1)*codec.MaxLeft, strings.Count(log.String(), "\n"))
	}
}

// TestUseByAnotherToken: whatever a router with another token tells, by however many names, this one lets in its
// share of each limit, at once and minute by minute, and no more than all of it.
func TestUseByAnotherToken(t *testing.T) {
	for name, claim := range map[string]func(i float64) useEntry{
		"endless use": func(i float64) useEntry {
			return useEntry{inFlight: codec.Largest, requests: i * 1e12, tokens: i * 1e12, missingRequests: 1e12, missingTokens: 1e12}
		},
		"given back": func(i float64) useEntry { return useEntry{requests: -i * 1e12, tokens: -i * 1e12} },
	} {
		for _, names := range []int{1, 100} {
			bubbletest.Test(t, func(t *testing.T) {
				key := &Key{requests: 60, tokens: 6000, concurrency: 4}
				hear, told := hearing(t, key), 0.0
				admitted := func(most int) (n int) {
					for range most {
						for i := range names {
							hear(fmt.Sprintf("rogue-%016x", i), "rogue", claim(told))
						}
						told++
						if key.begin(time.Now()) == nil {
							n++
							own := key.use(time.Now())
							key.told(&own)
						}
					}
					return n
				}
				atOnce, all := 2, 30
				if name == "given back" {
					atOnce, all = 4, 60
				}
				require.Equal(t, atOnce, admitted(10), "%s of %d", name, names)
				for range atOnce {
					key.End()
				}
				time.Sleep(time.Hour)
				total := 0
				for range 60 {
					n := admitted(atOnce)
					for range n {
						key.End()
					}
					total += n
					time.Sleep(time.Second)
				}
				require.InDelta(t, 2*all, total, 1, "a minute's worth at once, and that of a minute")
			})
		}
	}
}
