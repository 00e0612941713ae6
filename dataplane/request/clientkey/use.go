package clientkey

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
)

// useMessage is the use of a router by its clients. Numbers of entries count from the router's
// start, so that the next message repairs a lost one.
type useMessage struct {
	id     []byte // of the router
	number int64  // of this message among all of its router
	flags  byte
	names  []useEntry
}

const (
	flagWhole = 1 << iota // names that are not listed have no requests under way
	flagFull              // names that are not listed have used nothing since the router's start
	flagLast              // the router ends
)

// useEntry is the use of a name.
type useEntry struct {
	name             []byte
	inFlight         int
	requests, tokens float64 // since the router's start
	// Of a minute's worth, as far as the router knows.
	missingRequests, missingTokens float64
}

const (
	useVersion = 1
	// useEntrySize is the least size of an entry.
	useEntrySize = 2 + 4*8
	maxID        = 255
)

func (e *useEntry) inUse() bool {
	return e.inFlight > 0 || e.missingRequests > 0 || e.missingTokens > 0
}

func (e *useEntry) everUsed() bool { return e.requests != 0 || e.tokens != 0 }

func (m *useMessage) append(b []byte) []byte {
	b = codec.AppendBytes(append(b, useVersion), m.id, maxID)
	b = append(codec.AppendUvarint(b, m.number), m.flags)
	b = codec.AppendUvarint(b, len(m.names))
	for i := range m.names {
		e := &m.names[i]
		b = codec.AppendUvarint(codec.AppendBytes(b, e.name, maxName), e.inFlight)
		for _, f := range [...]float64{e.requests, e.tokens, e.missingRequests, e.missingTokens} {
			b = codec.AppendFloat(b, f)
		}
	}
	return b
}

// decode fills m; its texts alias b.
func (m *useMessage) decode(b []byte) error {
	r := codec.NewReader(b)
	if r.Byte() != useVersion {
		r.Fail("the version")
	}
	m.id, m.number = r.Text(maxID), int64(r.Uvarint())
	if m.flags = r.Byte(); m.flags > flagWhole|flagFull|flagLast {
		r.Fail("flags")
	}
	m.names = m.names[:0]
	for range r.Count(useEntrySize) {
		e := useEntry{name: r.Text(maxName), inFlight: int(r.Uvarint())}
		for _, f := range [...]*float64{&e.requests, &e.tokens, &e.missingRequests, &e.missingTokens} {
			if *f = r.Float(); math.Abs(*f) > codec.Largest {
				r.Fail("a use")
			}
		}
		if e.missingRequests < 0 || e.missingTokens < 0 {
			r.Fail("what is missing")
		}
		m.names = append(m.names, e)
	}
	return r.End()
}

// use returns the key's use for a message.
func (k *Key) use(now time.Time) useEntry {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	u.telling = false
	k.fillLocked(now)
	return useEntry{
		name: []byte(k.Name), inFlight: u.counts.InFlight, requests: u.requests.used, tokens: u.tokens.used,
		missingRequests: u.requests.missing, missingTokens: u.tokens.missing,
	}
}

// told notes that the other routers hear of an entry of this one.
func (k *Key) told(e *useEntry) {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests.told(e.requests)
	u.tokens.told(e.tokens)
	u.told = min(e.inFlight, u.counts.InFlight)
}

// fillLocked fills the buckets. The caller holds used.mu.
func (k *Key) fillLocked(now time.Time) {
	by := k.used.group.sharers()
	k.used.requests.fill(now, k.requests, by)
	k.used.tokens.fill(now, k.tokens, by)
}

// lower takes over the levels of another router.
func (k *Key) lower(now time.Time, e *useEntry, foreign bool) {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	k.fillLocked(now)
	if foreign {
		k.claimLocked(max(e.missingRequests-u.requests.claimed, 0), max(e.missingTokens-u.tokens.claimed, 0))
		return
	}
	u.requests.owe(max(e.missingRequests-u.requests.missing, 0), 2*k.requests)
	u.tokens.owe(max(e.missingTokens-u.tokens.missing, 0), 2*k.tokens+longestUse)
}

// longestUse is the most tokens of one request that other routers tell of, and a minute's worth
// more may be missing: a false word of one then locks a key for so long, and not for good.
const longestUse = 1 << 20

// owe counts use at another router; less than 0 is given back. It brings the bucket to no more than
// most missing.
func (b *bucket) owe(n, most float64) {
	b.missing = max(min(b.missing+n, max(b.missing, most)), 0)
}

// claimLocked counts use at a router with another token; less than 0 is given back. It leaves the
// share of this router's token, and no debt.
func (k *Key) claimLocked(requests, tokens float64) {
	by := k.used.group.sharers()
	for _, c := range [...]struct {
		b       *bucket
		n, rate float64
	}{{&k.used.requests, requests, k.requests}, {&k.used.tokens, tokens, k.tokens}} {
		c.b.claimed = min(max(c.b.claimed+c.n, 0), by.others(c.rate))
	}
}

// usedElsewhere counts the use of the key at another router; less than 0 is given back.
func (k *Key) usedElsewhere(now time.Time, requests, tokens float64, foreign bool) {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	k.fillLocked(now)
	if foreign {
		k.claimLocked(requests, tokens)
		return
	}
	u.requests.owe(requests, 2*k.requests)
	u.tokens.owe(tokens, 2*k.tokens+longestUse)
}
