package request

import "time"

// retryBudget bounds the requests that are sent again although a worker has answered them with an
// error, and that no other worker answers well either. A retry that helps costs nothing, so that a
// worker which fails many requests at once gives none of them its error.
type retryBudget struct {
	tokens float64
	at     time.Time // of tokens; zero: the budget is whole
}

const (
	// maxRetryTokens is the size of a client's token bucket, which gains one each retryTokenEvery:
	// a client that sends nothing but mistakes costs no more.
	maxRetryTokens  = 24
	retryTokenEvery = time.Second
	// reservedTokens are for errors of doubtful workers: else the clients' own mistakes could use
	// up all.
	reservedTokens = 16
	// retryClients is how many clients' budgets all of them have together: where everything fails,
	// that is all that is sent again in vain.
	retryClients = 8
)

// left returns the tokens at a time, of the budget of so many clients.
func (b *retryBudget) left(now time.Time, clients float64) float64 {
	if b.at.IsZero() {
		return maxRetryTokens * clients
	}
	gained := max(now.Sub(b.at).Seconds(), 0) / retryTokenEvery.Seconds()
	return min(b.tokens+gained*clients, maxRetryTokens*clients)
}

// spend takes n tokens, as far as they are there.
func (b *retryBudget) spend(now time.Time, clients float64, n int) {
	b.tokens = max(b.left(now, clients)-float64(n), 0)
	b.at = now
}
