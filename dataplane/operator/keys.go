package operator

import (
	"bytes"
	"crypto/subtle"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/valyala/fasthttp"
)

// Reasons why the operator API refuses a request.
const (
	refusedNoKey   = "no_key"
	refusedKey     = "wrong_key"
	refusedForeign = "foreign" // a web page's
)

const (
	// wrongKeyDelay slows the guessing of keys. It is nothing to an operator with a typing mistake.
	wrongKeyDelay = time.Second
	// wrongKeysDelayed bounds the requests that wait for it, each with a connection. Beyond it a
	// guess costs its connection.
	wrongKeysDelayed = 64
	// wrongKeysLogged is the time between two lines in the log.
	wrongKeysLogged = time.Minute
)

// Refusals counts the requests that the operator API refuses, and slows those with a wrong key. The
// right key is looked at first, and waits for nobody: whoever guesses, and from whichever address,
// locks no operator out.
type Refusals struct {
	Count    *prometheus.CounterVec
	delayed  chan struct{}
	log      *slog.Logger
	logged   atomic.Int64 // unix nanoseconds of the last line
	unlogged atomic.Int64 // wrong keys since then
}

// NewRefusals returns a count of nothing.
func NewRefusals(log *slog.Logger) *Refusals {
	r := &Refusals{
		Count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "warmpath", Name: "operator_refused_total",
			Help: "Requests that the operator API refused: without a key, with a wrong one, or of a web page (foreign).",
		}, []string{"reason"}),
		delayed: make(chan struct{}, wrongKeysDelayed), log: log,
	}
	for _, reason := range []string{refusedNoKey, refusedKey, refusedForeign} {
		r.Count.WithLabelValues(reason)
	}
	return r
}

// Foreign counts a request of a web page.
func (r *Refusals) Foreign() { r.Count.WithLabelValues(refusedForeign).Inc() }

// Allow checks the bearer token of a request against the key in constant time. A request with a
// wrong one waits.
func (r *Refusals) Allow(ctx *fasthttp.RequestCtx, key string) bool {
	given := ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)
	token, ok := bytes.CutPrefix(given, []byte("Bearer "))
	switch {
	case ok && subtle.ConstantTimeCompare(token, []byte(key)) == 1:
		return true
	case len(given) == 0:
		r.Count.WithLabelValues(refusedNoKey).Inc()
	case !r.wrongKey(ctx.RemoteAddr()):
		ctx.SetConnectionClose()
	}
	return false
}

// Counts are the requests that an API for operators refused since the start, by reason.
type Counts struct {
	NoKey    uint64 `json:"no_key"`
	WrongKey uint64 `json:"wrong_key"`
	Foreign  uint64 `json:"foreign"` // of web pages
}

// Refused returns the counts.
func (r *Refusals) Refused() Counts {
	return Counts{NoKey: r.of(refusedNoKey), WrongKey: r.of(refusedKey), Foreign: r.of(refusedForeign)}
}

func (r *Refusals) of(reason string) uint64 {
	var value dto.Metric
	if r.Count.WithLabelValues(reason).Write(&value) != nil {
		return 0
	}
	return uint64(value.GetCounter().GetValue())
}

// wrongKey counts a wrong key, and waits. false: too many wait, and the connection shall end.
func (r *Refusals) wrongKey(client net.Addr) bool {
	r.Count.WithLabelValues(refusedKey).Inc()
	now, last := time.Now().UnixNano(), r.logged.Load()
	if now-last < int64(wrongKeysLogged) || !r.logged.CompareAndSwap(last, now) {
		r.unlogged.Add(1)
	} else {
		r.log.Warn("the operator API was asked with a wrong key", "client", client.String(), "not_logged_before", r.unlogged.Swap(0))
	}
	select {
	case r.delayed <- struct{}{}:
		<-time.After(wrongKeyDelay)
		<-r.delayed
		return true
	default:
		return false
	}
}
