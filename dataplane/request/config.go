package request

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/origin"
)

// Config holds the settings of requests; zero fields take the defaults.
type Config struct {
	MaxBodyBytes int // default 64 MiB
	// GzipMinBytes is the length from which JSON answers are compressed for clients that ask;
	// default 4 KiB; negative: none are.
	GzipMinBytes int
	// Audience is for whom the X-Warmpath-* fields of answers are: AudienceAll (default),
	// AudienceOperators or AudienceNone.
	Audience string
	// SaltByKey gives the prompts of each key a cache of their own.
	SaltByKey bool
	// Origins of pages that may call the API from a browser; nil: the workers say.
	Origins *origin.Allowed
	// TrustPriority believes the priority in bodies of clients without a key.
	TrustPriority bool
	// Proxies are trusted to name the address of their client in X-Forwarded-For.
	Proxies     worker.Networks
	OperatorKey []byte // by which an operator is known; none: nobody is
	// Plain chats carry their token ids to the worker, once the ids are proved.
	ForwardIDs bool
	// Further attempts before the answer begins; default 3; negative: none.
	Retries int
	// For which requests are refused that equal one that was in flight at the death of two engines;
	// default: they are not refused.
	Quarantine time.Duration
	Queue      QueueConfig
	Pair       PairConfig
	// FirstByteTimeout bounds the wait for an answer to begin; default 30 min: long prompts wait in
	// the worker's queue.
	FirstByteTimeout time.Duration
	StallTimeout     time.Duration  // between two reads of an answer; default 10 min
	DrainTimeout     time.Duration  // for requests in flight at shutdown; default 30 s
	Clients          ingress.Limits // of connections
	Log              *slog.Logger
}

// QueueConfig holds the settings of the queue in front of full workers.
type QueueConfig struct {
	// Waiting requests of a model; default 8192; negative: none ever waits.
	Max     int
	Timeout time.Duration // of a waiting request that names no deadline; default 10 s
	// Requests that fill a rank; 0: an eighth more than it runs at once, by its reports.
	MaxInFlight int
	FIFO        bool // first come, first served, without priorities and fairness
}

// PairConfig holds the settings of requests to a prefill and a decode worker.
type PairConfig struct {
	// Timeout bounds how long a stream's decode worker may take to begin after the prefill worker
	// has answered. The KV pages are there by then: the decode worker only adds the request to its
	// batch. Time in which it is full and goes on does not count.
	// Default 30 s; negative: FirstByteTimeout.
	Timeout time.Duration
	// PrefillTimeout bounds the prefill worker's silence; default FirstByteTimeout.
	PrefillTimeout time.Duration
	// Headers sends bootstrap address and room in headers instead of the body, for chats: the
	// workers must run with SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1.
	Headers bool
}

func (c *Config) setDefaults() {
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 64<<20)
	c.GzipMinBytes = cmp.Or(c.GzipMinBytes, defaultGzipMin)
	c.Retries = cmp.Or(c.Retries, 3)
	c.Audience = cmp.Or(c.Audience, AudienceAll)
	c.FirstByteTimeout = cmp.Or(c.FirstByteTimeout, 30*time.Minute)
	c.StallTimeout = cmp.Or(c.StallTimeout, 10*time.Minute)
	c.Pair.Timeout = cmp.Or(c.Pair.Timeout, 30*time.Second)
	c.Pair.PrefillTimeout = cmp.Or(c.Pair.PrefillTimeout, c.FirstByteTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
}
