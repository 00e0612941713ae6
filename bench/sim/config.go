package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// Config says what one simulated worker is. The zero value of a field stands for
// its default.
type Config struct {
	Listen        string // HTTP address; default "127.0.0.1:0", see [Worker.URL]
	Model         string // served model name; default "simulated"
	ModelPath     string // of the weights; default Model
	PageSize      int    // tokens a page; default 16
	CachePages    int    // KV pool of one rank in pages; default 62,500: 1,000,000 tokens of 16
	MaxRunning    int    // largest running batch of a rank; default 64
	DPSize        int    // ranks, each with its own cache and sockets; default 1
	TPSize        int    // GPUs a rank, as /server_info claims; default 1. The speed is Service's all the same
	ContextLength int    // default 131,072

	PairConfig

	Service   Service // how long work takes
	TimeScale float64 // simulated seconds a second; default 1

	EventConfig

	NoCache bool // --disable-radix-cache: nothing is found again and no event tells of a page

	// Version is what /server_info claims; default the release of Encoding.
	Version string
	Log     *slog.Logger
}

// PairConfig is the part of a worker that serves requests in pairs.
type PairConfig struct {
	// Mode is "" for an aggregated worker, or [ModePrefill] or [ModeDecode] for one
	// that serves requests in pairs.
	Mode string
	// BootstrapPort is where a prefill worker's bootstrap server listens, on the host of
	// Listen (default: any free port), and where a decode worker looks for one that a
	// request does not name (default 8998, as in SGLang).
	BootstrapPort    int
	BootstrapDelay   time.Duration // until a prefill worker's ranks have registered; simulated
	BootstrapTimeout time.Duration // of a prefill leg without a partner; simulated, default 300 s as in SGLang
	WaitingTimeout   time.Duration // of a decode leg without keys and values; simulated, default 300 s
	DecodeCache      bool          // a decode worker keeps a prefix cache, which SGLang's does only when told to
	HeaderOverrides  bool          // x-override-* headers count, as with SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES
}

// EventConfig is what a worker publishes, and where.
type EventConfig struct {
	// ZMQ endpoints of rank 0, "tcp://host:port"; rank r binds port + r. Port
	// "*" or 0 lets the system choose. "off" publishes nothing: then
	// /server_info does not speak of events, as of a worker started without.
	Events, Replay, Load string

	Topic       string           // default "kv-events"
	Encoding    kvevent.Encoding // whose bytes the events have; default SGLang 0.5.23
	BufferSteps int              // batches kept for replay; default 10,000 as in SGLang
	silent      func() bool      // replays are not answered; of Faults
}

// Service is the service-time model: what a batch costs in simulated time. See
// the package documentation for the formula and for where the defaults are from.
type Service struct {
	PrefillTokensPerSecond float64       // default 16,000
	PrefillBase            time.Duration // of every prefill batch; default 8 ms
	ChunkedPrefill         int           // most new tokens of one prefill batch; default 8,192
	DecodeBase             time.Duration // of every decode step; default 14 ms
	DecodePerRequest       time.Duration // default 60 µs
	DecodePerToken         time.Duration // for each token of context in the batch; default 17 ns

	TransferTokensPerSecond float64       // of the link between a prefill rank and all decode ranks; default 125,000
	TransferLatency         time.Duration // of each transfer; default 3 ms
}

// Modes of a worker, as /server_info names them.
const (
	ModePrefill = "prefill"
	ModeDecode  = "decode"
)

// bootstrapDefault is SGLang's --disaggregation-bootstrap-port.
const bootstrapDefault = 8998

// off as an endpoint means that there is no such socket.
const off = "off"

// Errors of [New] and of [Faults].
var (
	ErrConfig = errors.New("sim: bad configuration")
	ErrFault  = errors.New("sim: unknown fault")
)

// withDefaults returns c with every default filled in.
func (c Config) withDefaults() Config {
	orString(&c.Listen, "127.0.0.1:0")
	orString(&c.Model, "simulated")
	orString(&c.ModelPath, c.Model)
	orString(&c.Events, "tcp://127.0.0.1:*")
	orString(&c.Replay, "tcp://127.0.0.1:*")
	orString(&c.Load, "tcp://127.0.0.1:*")
	orString(&c.Topic, "kv-events")
	or(&c.PageSize, 16)
	or(&c.CachePages, 1_000_000/16)
	or(&c.MaxRunning, 64)
	or(&c.DPSize, 1)
	or(&c.TPSize, 1)
	or(&c.ContextLength, 131_072)
	or(&c.TimeScale, 1)
	or(&c.Encoding, kvevent.SGLang0523)
	or(&c.BufferSteps, 10_000)
	orString(&c.Version, release(c.Encoding))
	or(&c.BootstrapTimeout, 300*time.Second)
	or(&c.WaitingTimeout, 300*time.Second)
	if c.Mode != ModePrefill {
		or(&c.BootstrapPort, bootstrapDefault)
	}
	if c.Events == off {
		c.Replay, c.Load = off, off // as in SGLang, both hang on the event publisher
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Service = c.Service.withDefaults()
	return c
}

func (s Service) withDefaults() Service {
	or(&s.PrefillTokensPerSecond, 16_000)
	or(&s.PrefillBase, 8*time.Millisecond)
	or(&s.ChunkedPrefill, 8_192)
	or(&s.DecodeBase, 14*time.Millisecond)
	or(&s.DecodePerRequest, 60*time.Microsecond)
	or(&s.DecodePerToken, 17*time.Nanosecond)
	or(&s.TransferTokensPerSecond, 125_000)
	or(&s.TransferLatency, 3*time.Millisecond)
	return s
}

func or[T int | float64 | time.Duration | kvevent.Encoding](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

func orString(v *string, def string) {
	if *v == "" {
		*v = def
	}
}

// release is the version that a worker with encoding e would claim.
func release(e kvevent.Encoding) string {
	if e == kvevent.VLLM032 {
		return "0.32.0"
	}
	return e.String()
}

// check refuses what cannot be simulated.
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

// prefill is the time of a prefill batch of tokens new tokens.
func (s Service) prefill(tokens int) time.Duration {
	return s.PrefillBase + time.Duration(float64(tokens)/s.PrefillTokensPerSecond*float64(time.Second))
}

// decode is the time of one decode step of requests requests with context tokens
// of context in all.
func (s Service) decode(requests, context int) time.Duration {
	return s.DecodeBase + time.Duration(requests)*s.DecodePerRequest + time.Duration(context)*s.DecodePerToken
}

// maxInput is the longest prompt in tokens: SGLang leaves room for an answer of
// one token and five more, within the context and within the KV pool.
func (c Config) maxInput() int { return c.maxTotal() - 5 }

// maxTotal is how long a prompt and its answer may become together.
func (c Config) maxTotal() int { return min(c.ContextLength, c.CachePages*c.PageSize) - 1 }

// transfer is how long the link is busy with tokens tokens.
func (s Service) transfer(tokens int) time.Duration {
	return time.Duration(float64(tokens) / s.TransferTokensPerSecond * float64(time.Second))
}

// disaggregation is the mode as /server_info says it.
func (c Config) disaggregation() string {
	if c.Mode == "" {
		return "null"
	}
	return c.Mode
}

// real is how long a simulated time is on the clock.
func (c Config) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.TimeScale)
}

// decodeLegs is how many legs a decode rank may hold pages for: SGLang gives small
// batches twice their size on top for what is being received.
func (c Config) decodeLegs() int {
	if c.MaxRunning <= 32 {
		return 3 * c.MaxRunning
	}
	return c.MaxRunning
}

// cacheless reports whether ranks have no prefix cache: SGLang's decode workers have none by default.
func (c Config) cacheless() bool { return c.Mode == ModeDecode && !c.DecodeCache }
