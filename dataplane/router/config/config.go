package config

import (
	"cmp"
	"log/slog"
	"net"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// Config holds the settings of a router; zero fields take the defaults.
type Config struct {
	Listen   string // address for clients; default 127.0.0.1:8000
	Operator Operator
	// Of both listeners; no Cert: plain HTTP. A separate operator listener asks for no
	// certificate.
	TLS       tlsconfig.ServerFiles
	Sources   fleet.SourceConfig
	WorkerTLS tlsconfig.ClientFiles // of workers with https URLs
	Probes    Probes
	Policy    Policy
	Requests  Requests
	Timeouts  Timeouts
	Queue     Queue
	Pairs     Pairs
	Tokenize  Tokenize
	Memory    Memory
	Snapshot  Snapshot
	Cluster   Cluster
	Logs      Logs

	// Sockets that the process was given; nil: Listen and Operator.Listen are bound.
	Sockets *Sockets

	// Node is the sidecar in this process, a source of workers and of their health; nil: there is
	// none. Its owner runs it.
	Node       fleet.NodeSource
	ConfigFile string // of these settings, to be shown; "": there is none
	Version    string
	Log        *slog.Logger
}

// Sockets are listeners that somebody else has bound: systemd, or the process before this one.
// Their addresses count, and not those of the settings.
type Sockets struct {
	Clients, Operator net.Listener // nil: the setting is bound
	// They outlive the process: clients that come during a restart wait.
	Kept bool
	// Connections are accepted once it is closed; nil: at once. Clients wait in the sockets' queue
	// meanwhile.
	Open <-chan struct{}
}

// Operator describes the operators' API.
type Operator struct {
	Listen string // "" serves it on Config.Listen
	Key    string // bearer token; required on an address that is not loopback
	// Names under which it is reached without a key, besides those of loopback.
	Hosts []string
}

// Probes are the readiness probes of workers.
type Probes struct {
	Interval  time.Duration // default 250 ms
	Timeout   time.Duration // default 500 ms
	HangAfter time.Duration // of a worker that does not answer; default 5 s
}

// Policy is the choice of a worker.
type Policy struct {
	Name            string          // default kv
	Options         *policy.Options // nil: policy.Defaults
	SessionAffinity bool            // see policy.Sticky
}

// Requests are the limits and retries of requests.
type Requests struct {
	MaxBodyBytes int // default 64 MiB
	// Smallest JSON answer to compress for clients that ask; default 4 KiB; negative: none.
	GzipMinBytes int
	Retries      int // default 3; negative: none
	// For whom the X-Warmpath-* fields of answers are; default AudienceAll where Listen is
	// loopback, else AudienceOperators.
	Audience string
	// TrustPriority believes the priority in the bodies of clients without a key.
	TrustPriority bool
	// Origins of pages that may call the clients' API from a browser, * for any; none: the workers
	// say.
	Origins []string
	// Networks of proxies that name the address of their client in X-Forwarded-For.
	Proxies     []string
	Quarantine  time.Duration // of a request that was in flight when two engines died
	MaxInFlight int           // requests at which a rank is full; default by its own reports
	Clients     Clients
}

// Timeouts bound the steps of a request.
type Timeouts struct {
	FirstByte time.Duration // default 30 min
	Stall     time.Duration // default 10 min
	Drain     time.Duration // default 30 s
}

// Clients are the limits of connections of clients. Zero is the default of package ingress, where
// the reasons are.
type Clients struct {
	Keys string // file with their API keys, see package clientkey; "": they need none
	// JWKS is a file or URL with the keys of JSON Web Tokens, which clients may show in place of a
	// key, of that Issuer and for that TokenAudience; "": none are taken.
	JWKS, Issuer, TokenAudience string

	CacheSalt  bool          // prompts of each key have a cache of their own
	Max        int           // connections; default as the limit of open files allows
	PerAddress int           // of them; default any number
	Idle       time.Duration // until the next request; default 15 min
	Request    time.Duration // for a request to arrive; default 30 s
	MinRate    int           // bytes a second of a request that takes longer; default 16 KiB
	Stall      time.Duration // in which a client takes nothing of its answer; default 1 min
	MaxHead    int           // bytes of a request's head; default 16 KiB
}

// Queue holds requests while all workers of their model are full.
type Queue struct {
	Max     int           // requests of a model; default 8192; negative: none wait
	Timeout time.Duration // of a request that names no deadline; default 10 s
	// First come, first served; default priorities and turns, then the deepest match.
	FIFO bool
}

// Pairs are requests to a prefill and a decode worker.
type Pairs struct {
	// By which a decode worker may lag behind its prefill worker; default 30 s; negative:
	// Timeouts.FirstByte.
	Timeout        time.Duration
	PrefillTimeout time.Duration // until the prefill worker answers; default Timeouts.FirstByte
	Headers        bool          // bootstrap rooms travel in x-override-* headers
	// Tokens that make a prompt worth a pair; default routing.DefaultMinUncached; negative:
	// length never decides.
	MinUncached int
}

// Tokenize selects where token ids are made.
type Tokenize struct {
	By         string // TokenizeAuto (default) or TokenizeByWorkers
	ForwardIDs bool   // plain chats carry their token ids to the worker
	// ModelPaths are folders with tokenizer.json: "NAME=DIR", or "DIR" for every other model. DIR
	// may be a model of Hugging Face's hub, as modelfile.OperatorHubName has it.
	ModelPaths []string
	// AllowedPaths are folders below which workers may name their models' files, beside those of
	// ModelPaths and modelfile.DefaultFolders.
	AllowedPaths []string
}

// Memory bounds the router's indexes and caches, in bytes.
type Memory struct {
	Index       int64 // default a quarter of the machine's; negative: no bound
	Approx      int64 // the approximate index; default 64 MiB
	PromptCache int64 // default 64 MiB
}

// Snapshot is the file that keeps the index between two processes.
type Snapshot struct {
	File string // "" keeps none
	// Between two writes; default 1 min, well below the reach of the engines' replay buffers.
	Interval time.Duration
}

// Cluster holds the router's part in a cluster.
type Cluster struct {
	Conn   *cluster.Cluster // nil: nothing. Its owner opens it before New and closes it after Run
	Joined any              // the settings of Conn, so that Changed sees a difference
	Peers  string           // of the routers in Conn: PeersAuto (default) or PeersOff
	Hints  string           // to the sidecars in Conn: HintsAuto (default) or HintsOff
	// Of clients at the start, until the workers of Conn are known; default 3 s.
	Wait time.Duration
}

// Logs describes the router's records of requests.
type Logs struct {
	// File that gets a line for each request; "" keeps none. See package accesslog.
	Access string
	Format string // of the log: text (default) or json
	// URL of the OpenTelemetry collector that gets the spans of requests; "": none are made.
	Traces     string
	LintSample float64 // share of prompts that are checked for unstable beginnings; 0: none
}

const (
	// TokenizeAuto makes token ids in the router where a model's files are found and its ids are
	// proved.
	TokenizeAuto = "auto"
	// TokenizeByWorkers asks POST /v1/tokenize for all of them.
	TokenizeByWorkers = "workers"
)

// Values of Cluster.Peers.
const (
	PeersAuto = "auto" // routers know each other's requests; nothing without a cluster
	PeersOff  = "off"
)

// Values of Requests.Audience.
const (
	AudienceAll       = "all"
	AudienceOperators = "operators"
	AudienceNone      = "none"
)

// Values of Cluster.Hints.
const (
	// Sidecars hear which pages to pull from another node; nothing without a cluster.
	HintsAuto = "auto"
	HintsOff  = "off"
)

// defaultClusterWait covers the first look at a cluster, which takes 0.5 to 1.5 s. Without the
// wait a restarted router, which has no list of its own, would answer 503 until then.
const defaultClusterWait = 3 * time.Second

// SetDefaults fills in zero fields.
func (c *Config) SetDefaults() {
	if c.Sockets != nil {
		for setting, l := range map[*string]net.Listener{&c.Listen: c.Sockets.Clients, &c.Operator.Listen: c.Sockets.Operator} {
			if l != nil {
				*setting = l.Addr().String()
			}
		}
	}
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:8000")
	if host, _, _ := net.SplitHostPort(c.Listen); c.Requests.Audience == "" {
		c.Requests.Audience = AudienceOperators
		if tlsconfig.Loopback(host) {
			c.Requests.Audience = AudienceAll
		}
	}
	c.Policy.Name = cmp.Or(c.Policy.Name, "kv")
	c.Tokenize.By = cmp.Or(c.Tokenize.By, TokenizeAuto)
	c.Cluster.Peers = cmp.Or(c.Cluster.Peers, PeersAuto)
	c.Cluster.Hints = cmp.Or(c.Cluster.Hints, HintsAuto)
	c.Cluster.Wait = cmp.Or(c.Cluster.Wait, defaultClusterWait)
	c.Version = cmp.Or(c.Version, "dev")
	c.Memory.Index = cmp.Or(c.Memory.Index, defaultIndexBytes())
	c.Snapshot.Interval = cmp.Or(c.Snapshot.Interval, time.Minute)
	if c.Policy.Options == nil {
		defaults := policy.Defaults
		c.Policy.Options = &defaults
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
}
