package request

import (
	"sync"
	"time"
)

// retryBudget bounds how many requests are sent again although a worker has answered them with an
// error. A retry that is answered well costs nothing: it gives its token back.
type retryBudget struct {
	mu     sync.Mutex
	tokens float64   // guarded by mu
	at     time.Time // of tokens; guarded by mu
}

const (
	// maxRetryTokens is the size of the token bucket, which gains one each retryTokenEvery: a
	// client that sends nothing but mistakes costs no more.
	maxRetryTokens  = 24
	retryTokenEvery = time.Second
	// reservedTokens are for errors of doubtful workers: else the clients' own mistakes could use
	// up all.
	reservedTokens = 16
)

// take takes a token. credible says that the worker's error is likely to be the client's mistake;
// then reservedTokens stay.
func (b *retryBudget) take(now time.Time, credible bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.tokens = maxRetryTokens
	} else {
		b.tokens = min(b.tokens+max(now.Sub(b.at).Seconds(), 0)/retryTokenEvery.Seconds(), maxRetryTokens)
	}
	b.at = now
	need := 1.0
	if credible {
		need += reservedTokens
	}
	if b.tokens < need {
		return false
	}
	b.tokens--
	return true
}

// giveBack returns a token.
func (b *retryBudget) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+1, maxRetryTokens)
}
