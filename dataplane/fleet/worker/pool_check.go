package worker

import "time"

// PoolContent is the content of a rank's KV pool by its events.
type PoolContent struct {
	Tokens int64 // of cached pages, before the evictions of the last batch of events
	// Evicting: that batch removed pages, which SGLang does only where the pool has too little room
	// for a request.
	Evicting bool
}

// PoolAccount is a rank's pool as it is reported, beside its events and the requests that this
// router knows there. Used and Held are the largest values since the report before the last.
type PoolAccount struct {
	PoolContent
	Pool int64 // reported tokens
	Used int64 // reported, of running requests
	Held int64 // as in Account
}

// FindPool compares a reported pool with its content. A rank whose pool is smaller than reported
// looks empty while it evicts, and prompts follow overlap that is gone; one whose pool is larger
// looks full while it has room.
func FindPool(a PoolAccount) Finding {
	spare := a.Pool / spareShare
	switch {
	case a.Pool <= 0:
		return Silent
	case a.Tokens > a.Pool+spare:
		return Contradict
	case !a.Evicting:
		return Silent
	case a.Tokens+max(a.Used, a.Held)+spare < a.Pool:
		return Contradict
	}
	return Agrees
}

// poolCheck compares a rank's pool with its events. Load.mu guards it.
type poolCheck struct {
	field    FieldCheck
	reported int64
	// The most cached tokens since the last doubt: the pool has at least so many, and little more,
	// since pages that are computed are cached.
	seen  int64
	why   string
	at    time.Time
	times uint64 // that the pool was set aside
}

// Reasons for which a pool is set aside.
const (
	whyPoolSmall = "its events name more cached tokens than the reported pool has"
	whyPoolLarge = "it evicts pages while the reported pool has room"
)

// observe takes an account.
func (p *poolCheck) observe(now time.Time, a PoolAccount) {
	found := FindPool(a)
	if a.Evicting || found == Contradict {
		p.seen = max(p.seen, a.Tokens)
	}
	if found == Agrees && !p.field.Aside() {
		p.seen = 0
	}
	if !p.field.Add(seconds(now), found) {
		return
	}
	p.at = now
	if !p.field.Aside() {
		return
	}
	p.times++
	if p.why = whyPoolLarge; a.Tokens > a.Pool {
		p.why = whyPoolSmall
	}
}

// believed returns the pool to choose by.
func (p *poolCheck) believed(reported int64) int64 {
	if p.field.Aside() && p.seen > 0 {
		return p.seen
	}
	return reported
}
