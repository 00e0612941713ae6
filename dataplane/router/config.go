package router

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// Config is what an operator can set; zero fields take the defaults.
type Config struct {
	Listen         string          // clients; default 127.0.0.1:8000
	OperatorListen string          // operators; "" serves their API on Listen
	OperatorKey    string          // bearer token of the operator API; required where it is not on loopback
	Workers        []string        // URLs, of any role
	Prefill        []string        // prefill workers: URL, URL,BOOTSTRAP_PORT or URL,HOST:PORT
	Decode         []string        // URLs of decode workers
	Discover       []string        // sources of more of them: "KIND:…"; see package discover
	Policy         string          // default kv
	Policies       *policy.Options // nil: policy.Defaults
	Sticky         bool            // a session keeps its rank while that is fit and not overloaded; see policy.Sticky

	ProbeInterval    time.Duration // default 250 ms
	ProbeTimeout     time.Duration // default 500 ms
	HangAfter        time.Duration // default 5 s
	MaxBodyBytes     int           // default 64 MiB
	GzipMinBytes     int           // JSON answers from this size on are compressed for clients that ask; default 4 KiB; negative: none
	IndexMaxBytes    int64         // of the index; default a quarter of the memory there is; negative: no bound
	ApproxMaxBytes   int64         // of the approximate tree; default 64 MiB
	SessionMaxBytes  int64         // of the session cache; default 64 MiB
	Tokenize         string        // TokenizeAuto (default) or TokenizeByWorkers
	ForwardIDs       bool          // plain chats carry their token ids to the worker, which then does not tokenize them
	ModelPaths       []string      // folders with tokenizer.json: "NAME=DIR", or "DIR" for every model that is not named
	QueueMax         int           // requests of a model that wait while all its workers are full; default 8192; negative: none waits here
	QueueTimeout     time.Duration // of each of them; default 5 min
	QueueFIFO        bool          // first come, first served; default depth first, with priorities and turns
	MaxInFlight      int           // requests of one worker rank from which it is full; default by its own reports
	LintSample       float64       // share of prompts that are looked at for changing parts before stable ones; 0: none
	Retries          int           // default 3
	Quarantine       time.Duration // of a request that ended two engines; default 5 min
	PairTimeout      time.Duration // how long a decode worker may lag behind its prefill worker; default 30 s; negative: FirstByteTimeout
	PrefillTimeout   time.Duration // how long a prefill worker may say nothing; default FirstByteTimeout
	PairHeaders      bool          // rooms travel in headers, where the workers take x-override-*
	MinUncached      int           // tokens that make a prompt worth a pair where it could go alone; default route.DefaultMinUncached; negative: length never decides
	FirstByteTimeout time.Duration // default 30 min
	StallTimeout     time.Duration // default 10 min
	DrainTimeout     time.Duration // default 30 s
	HugePages        bool          // ask the kernel for huge pages for a large heap; see radix/hugepage

	TLS       tlsconfig.ServerFiles // of both listeners; no Cert: plain HTTP. The operator's asks for no certificate where it is apart
	WorkerTLS tlsconfig.ClientFiles // of workers with https URLs

	Snapshot         string        // file that keeps the index between two processes; "" keeps none
	SnapshotInterval time.Duration // between two writes of it; default 1 min, well below what engines keep for replay

	AccessLog string // file to which a line is appended for each request; "" keeps none. See package accesslog

	// Cluster is what this router shares with others; nil: nothing. It is opened before New and closed after Run by whoever has it.
	Cluster  *cluster.Cluster
	Joined   any    // what Cluster was opened with, as far as a reload must see that it is another one
	Replicas string // of the routers in Cluster: ReplicasAuto (default) or ReplicasOff
	Hints    string // to the sidecars in Cluster: HintsAuto (default) or HintsOff
	// ClusterWait is for how long a router that starts lets its clients wait until it knows the workers of Cluster; default 3 s.
	ClusterWait time.Duration

	// Node is the sidecar in this process, whose workers and their health count as a source; nil: none. Who has it runs it.
	Node *sidecar.Node

	ConfigFile string // that all of this was read from, to be shown; "": none

	Version string
	Log     *slog.Logger
}

// ErrExposed is an operator API that anyone on the network could use.
var ErrExposed = errors.New("dataplane: the operator API would be open to the network")

func (c *Config) setDefaults() {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:8000")
	c.Policy = cmp.Or(c.Policy, "kv")
	c.Replicas = cmp.Or(c.Replicas, ReplicasAuto)
	c.Hints = cmp.Or(c.Hints, HintsAuto)
	c.ClusterWait = cmp.Or(c.ClusterWait, startPatience)
	c.Version = cmp.Or(c.Version, "dev")
	c.IndexMaxBytes = cmp.Or(c.IndexMaxBytes, defaultIndexBytes())
	c.SnapshotInterval = cmp.Or(c.SnapshotInterval, time.Minute)
	if c.Policies == nil {
		defaults := policy.Defaults
		c.Policies = &defaults
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// check refuses settings that no other check looks at, and an operator API
// without a key on an address that is not loopback: it adds and removes workers.
func (c *Config) check() error {
	if err := checkHints(c); err != nil {
		return err
	}
	addr, flag := c.OperatorListen, "--operator-listen"
	if addr == "" {
		addr, flag = c.Listen, "--listen"
	}
	for _, a := range []string{c.Listen, addr} { // before the question who reaches it: "foo" is no open door but a slip
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("cannot listen on %q: want host:port, such as 127.0.0.1:8000: %w", a, err)
		}
	}
	if c.OperatorKey != "" || loopback(addr) {
		return nil
	}
	return fmt.Errorf("cannot listen on %s %s: %w: set --operator-key, or keep the operator API local with --operator-listen 127.0.0.1:8001",
		flag, addr, ErrExposed)
}

// loopback reports whether only this machine can reach addr.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && tlsconfig.Loopback(host)
}
