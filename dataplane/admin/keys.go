package admin

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

// refusals counts the requests that the operator API refuses, and slows those with a wrong key. The
// right key is looked at first, and waits for nobody: whoever guesses, and from whichever address,
// locks no operator out.
type refusals struct {
	count    *prometheus.CounterVec
	delayed  chan struct{}
	log      *slog.Logger
	logged   atomic.Int64 // unix nanoseconds of the last line
	unlogged atomic.Int64 // wrong keys since then
}

func newRefusals(log *slog.Logger) *refusals {
	r := &refusals{
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "warmpath", Name: "operator_refused_total",
			Help: "Requests that the operator API refused: without a key, with a wrong one, or of a web page (foreign).",
		}, []string{"reason"}),
		delayed: make(chan struct{}, wrongKeysDelayed), log: log,
	}
	for _, reason := range []string{refusedNoKey, refusedKey, refusedForeign} {
		r.count.WithLabelValues(reason)
	}
	return r
}

// status returns the counts.
func (r *refusals) status() RefusedStatus {
	return RefusedStatus{NoKey: r.of(refusedNoKey), WrongKey: r.of(refusedKey), Foreign: r.of(refusedForeign)}
}

func (r *refusals) of(reason string) uint64 {
	var value dto.Metric
	if r.count.WithLabelValues(reason).Write(&value) != nil {
		return 0
	}
	return uint64(value.GetCounter().GetValue())
}

// wrongKey counts a wrong key, and waits. false: too many wait, and the connection shall end.
func (r *refusals) wrongKey(client net.Addr) bool {
	r.count.WithLabelValues(refusedKey).Inc()
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
