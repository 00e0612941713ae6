package clientkey

import "time"

// Routers is how many routers share the limits, as far as this one knows.
func (k *Keys) Routers() int { return int(k.group.sharers().routers) }

// Known returns what is missing of the key's requests, the requests under way at all routers, and what the others do not know of.
func (k *Key) Known(now time.Time) (missing float64, inFlight, untold int) {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	k.fillLocked(now)
	return u.requests.missing, u.counts.InFlight + u.elsewhere, u.counts.InFlight - u.told + int(u.requests.untold+0.5)
}

// Tokens returns what is missing of the key's tokens.
func (k *Key) Tokens(now time.Time) float64 {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	k.fillLocked(now)
	return u.tokens.missing
}

// BoundTokens sets the bounds of names and tokens.
func (k *Keys) BoundTokens(names, known int) { k.tokens.maxNames, k.tokens.maxKnown = names, known }

// Tokens is how many names and tokens are known.
func (k *Keys) Tokens() (names, tokens int) { return len(k.tokens.names), len(k.tokens.known) }
