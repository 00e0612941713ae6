package sim

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// Config describes one simulated worker. The zero value of a field is its default.
type Config struct {
	Listen     string // HTTP address; default "127.0.0.1:0", see [Worker.URL]
	Model      string // served model name; default "simulated"
	ModelPath  string // of the weights; default Model
	PageSize   int    // tokens a page; default 16
	CachePages int    // KV pool of one rank in pages; default 62,500: 1,000,000 tokens of 16
	MaxRunning int    // largest running batch of a rank; default 64
	DPSize     int    // ranks, each with its own cache and sockets; default 1
	// GPUs of a rank in /server_info; default 1. Service alone decides the speed.
	TPSize        int
	ContextLength int // default 131,072

	PairConfig

	Service   Service // Duration of work.
	TimeScale float64 // simulated seconds a second; default 1

	EventConfig

	APIKey      string // --api-key; "" asks for none
	AdminAPIKey string // --admin-api-key, of the routes that change the worker

	ResponseStore bool // --enable-response-store: /v1/responses are kept for previous_response_id

	NoCache bool // --disable-radix-cache: no prefix is found again, and no event is sent

	// Version is the release in /server_info; default the release of Encoding.
	Version string
	Log     *slog.Logger
	// Journal gets a line for each request that begins, "+N", and for each whole answer, "-N": N is
	// the number behind the first # of its body. Others leave no line.
	Journal io.Writer
}

// PairConfig configures a worker of a disaggregated deployment.
type PairConfig struct {
	// Mode is "" for a regular worker, or [ModePrefill] or [ModeDecode] for one
	// that serves requests in pairs.
	Mode string
	// BootstrapPort is the port of a prefill worker's bootstrap server on Listen's host
	// (default: any free port), and a decode worker's default for requests that name none
	// (8998, as in SGLang).
	BootstrapPort  int
	BootstrapDelay time.Duration // until a prefill worker's ranks have registered; simulated
	// Of a prefill leg without a partner; simulated, default 300 s as in SGLang.
	BootstrapTimeout time.Duration
	// Of a decode leg without keys and values; simulated, default 300 s.
	WaitingTimeout time.Duration
	DecodeCache    bool // a decode worker has a prefix cache; SGLang's default is none
	// X-override-* headers count, as with SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES.
	HeaderOverrides bool
}

// EventConfig configures the ZMQ streams.
type EventConfig struct {
	// Endpoints of rank 0, "tcp://host:port"; rank r binds port + r. The system picks a port of
	// "*" or 0. "off" publishes nothing, and /server_info then names no events.
	Events, Replay, Load string

	Topic       string           // default "kv-events"
	Encoding    kvevent.Encoding // release of the events' bytes; default SGLang 0.5.23
	BufferSteps int              // batches kept for replay; default 10,000 as in SGLang
	silent      func() bool      // replays are not answered; from Faults
}

// Service is the service-time model. The package documentation has its formula and the source
// of the defaults.
type Service struct {
	PrefillTokensPerSecond float64       // default 16,000
	PrefillBase            time.Duration // of every prefill batch; default 8 ms
	ChunkedPrefill         int           // most new tokens of one prefill batch; default 8,192
	DecodeBase             time.Duration // of every decode step; default 14 ms
	DecodePerRequest       time.Duration // default 60 µs
	DecodePerToken         time.Duration // for each token of context in the batch; default 17 ns

	// Of the link between a prefill rank and all decode ranks; default 125,000.
	TransferTokensPerSecond float64
	TransferLatency         time.Duration // of each transfer; default 3 ms
}

// Modes of a worker, as /server_info names them.
const (
	ModePrefill = "prefill"
	ModeDecode  = "decode"
)

// bootstrapDefault is SGLang's --disaggregation-bootstrap-port.
const bootstrapDefault = 8998

// off is an endpoint that does not exist.
const off = "off"

// Errors of [New] and of [Faults].
var (
	ErrConfig = errors.New("sim: bad configuration")
	ErrFault  = errors.New("sim: unknown fault")
)

// withDefaults returns c with all defaults.
func (c Config) withDefaults() Config {
	defaultTo(&c.Listen, "127.0.0.1:0")
	defaultTo(&c.Model, "simulated")
	defaultTo(&c.ModelPath, c.Model)
	defaultTo(&c.Events, "tcp://127.0.0.1:*")
	defaultTo(&c.Replay, "tcp://127.0.0.1:*")
	defaultTo(&c.Load, "tcp://127.0.0.1:*")
	defaultTo(&c.Topic, "kv-events")
	defaultTo(&c.PageSize, 16)
	defaultTo(&c.CachePages, 1_000_000/16)
	defaultTo(&c.MaxRunning, 64)
	defaultTo(&c.DPSize, 1)
	defaultTo(&c.TPSize, 1)
	defaultTo(&c.ContextLength, 131_072)
	defaultTo(&c.TimeScale, 1)
	defaultTo(&c.Encoding, kvevent.SGLang0523)
	defaultTo(&c.BufferSteps, 10_000)
	defaultTo(&c.Version, release(c.Encoding))
	defaultTo(&c.BootstrapTimeout, 300*time.Second)
	defaultTo(&c.WaitingTimeout, 300*time.Second)
	if c.Mode != ModePrefill {
		defaultTo(&c.BootstrapPort, bootstrapDefault)
	}
	if c.Events == off {
		c.Replay, c.Load = off, off // As in SGLang, both need the event publisher.
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Service = c.Service.withDefaults()
	return c
}

func (s Service) withDefaults() Service {
	defaultTo(&s.PrefillTokensPerSecond, 16_000)
	defaultTo(&s.PrefillBase, 8*time.Millisecond)
	defaultTo(&s.ChunkedPrefill, 8_192)
	defaultTo(&s.DecodeBase, 14*time.Millisecond)
	defaultTo(&s.DecodePerRequest, 60*time.Microsecond)
	defaultTo(&s.DecodePerToken, 17*time.Nanosecond)
	defaultTo(&s.TransferTokensPerSecond, 125_000)
	defaultTo(&s.TransferLatency, 3*time.Millisecond)
	return s
}

func defaultTo[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// release returns the version of a worker with encoding e.
func release(e kvevent.Encoding) string {
	if e == kvevent.VLLM032 {
		return "0.32.0"
	}
	return e.String()
}

// check refuses configurations that cannot be simulated.
func (c Config) check() error {
	switch {
	case c.PageSize < 1 || c.CachePages < 2 || c.MaxRunning < 1 || c.DPSize < 1:
		return fmt.Errorf("cannot use sizes page=%d cache=%d running=%d dp=%d: %w",
			c.PageSize, c.CachePages, c.MaxRunning, c.DPSize, ErrConfig)
	case c.ContextLength < 16:
		return fmt.Errorf("cannot use context length %d: %w", c.ContextLength, ErrConfig)
	case !(c.TimeScale > 0): // also NaN
		return fmt.Errorf("cannot use time scale %v: %w", c.TimeScale, ErrConfig)
	case c.Service.ChunkedPrefill < c.PageSize:
		return fmt.Errorf("cannot use chunks of %d tokens with pages of %d: %w",
			c.Service.ChunkedPrefill, c.PageSize, ErrConfig)
	case c.Mode != "" && c.Mode != ModePrefill && c.Mode != ModeDecode:
		return fmt.Errorf("cannot use mode %q: %w", c.Mode, ErrConfig)
	case min(c.BootstrapDelay, c.BootstrapTimeout, c.WaitingTimeout) < 0 || c.BootstrapPort < 0 || c.BootstrapPort > 65_535:
		return fmt.Errorf("cannot use bootstrap port %d, delay %v, timeouts %v and %v: %w",
			c.BootstrapPort, c.BootstrapDelay, c.BootstrapTimeout, c.WaitingTimeout, ErrConfig)
	}
	return c.Service.check()
}

func (s Service) check() error {
	if !(s.PrefillTokensPerSecond > 0) || !(s.TransferTokensPerSecond > 0) ||
		min(s.PrefillBase, s.DecodeBase, s.DecodePerRequest, s.DecodePerToken, s.TransferLatency) < 0 {
		return fmt.Errorf("cannot use service times %+v: %w", s, ErrConfig)
	}
	return nil
}

// prefill returns the time of a prefill batch of new tokens.
func (s Service) prefill(tokens int) time.Duration {
	return s.PrefillBase + time.Duration(float64(tokens)/s.PrefillTokensPerSecond*float64(time.Second))
}

// decode returns the time of a decode step with requests of context tokens in all.
func (s Service) decode(requests, context int) time.Duration {
	return s.DecodeBase + time.Duration(requests)*s.DecodePerRequest + time.Duration(context)*s.DecodePerToken
}

// maxInput is the longest prompt in tokens: SGLang leaves room for an answer of one token and
// five more, within the context and the KV pool.
func (c Config) maxInput() int { return c.maxTotal() - 5 }

// maxTotal bounds a prompt and its answer together.
func (c Config) maxTotal() int { return min(c.ContextLength, c.CachePages*c.PageSize) - 1 }

// transfer returns the time for which tokens occupy the link.
func (s Service) transfer(tokens int) time.Duration {
	return time.Duration(float64(tokens) / s.TransferTokensPerSecond * float64(time.Second))
}

// disaggregation returns the mode as in /server_info.
func (c Config) disaggregation() string {
	if c.Mode == "" {
		return "null"
	}
	return c.Mode
}

// real converts a simulated duration to the wall clock.
func (c Config) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.TimeScale)
}

// decodeLegs bounds the legs with pages of a decode rank: SGLang gives small batches twice
// their size on top for legs that are receiving.
func (c Config) decodeLegs() int {
	if c.MaxRunning <= 32 {
		return 3 * c.MaxRunning
	}
	return c.MaxRunning
}

// cacheless reports whether ranks have no prefix cache, as SGLang's decode workers by default.
func (c Config) cacheless() bool { return c.Mode == ModeDecode && !c.DecodeCache }
