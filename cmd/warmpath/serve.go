package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/regularfile"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/service"
)

func newServeCommand() *cobra.Command {
	o := serveOptions{}
	c := &cobra.Command{
		Use:   "serve (--worker URL | --prefill URL[,PORT] --decode URL) …",
		Short: "Route requests to SGLang workers",
		Long: `Serve routes /generate, /v1/chat/completions and /v1/completions to the worker
with the earliest predicted first token. It takes the workers' URLs and reads the endpoints of
their KV events from GET /server_info. Exact routing needs SGLang's --kv-events-config; workers
without it are routed by the cached tokens in their answers (--enable-cache-report).

Workers that SGLang runs with --disaggregation-mode are used in pairs: the prompt is
computed by a --prefill worker and the answer by a --decode worker. Their roles and the
prefill workers' bootstrap ports are read from GET /server_info, so plain --worker works too.

Clients talk to --listen. The operator's API (/status, /metrics, /workers, /console)
is there too, or on its own address with --operator-listen; off loopback it needs --operator-key.
SIGINT and SIGTERM drain; a second signal ends at once. SIGHUP reads files again. SIGUSR2 upgrades:
a new process of the program, as it is on disk by then, takes over without losing a connection.`,
		Example: `  warmpath serve --worker http://127.0.0.1:30000 --worker http://127.0.0.1:30001
  warmpath serve --listen 0.0.0.0:8000 --operator-listen 127.0.0.1:8001 --worker http://gpu1:30000
  warmpath serve --prefill http://gpu1:30000 --prefill http://gpu2:30000,8998 --decode http://gpu3:30000
  warmpath serve --config warmpath.yaml
  warmpath serve --discover kubernetes:inference/sglang-workers
  warmpath serve --tls-cert cert.pem --tls-key key.pem --worker https://gpu1:30000 --worker-ca ca.pem`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd) },
	}
	o.flags(c.Flags())
	return c
}

// serve runs the router that the command line asks for.
func serve(cmd *cobra.Command) (err error) {
	signals := catchSignals(syscall.SIGHUP, upgradeSignal)
	sockets, err := service.Take() // before there are other goroutines
	if err != nil {
		return err
	}
	path := cmd.Flags().Lookup(configFlag).Value.String()
	if path == "" {
		path = os.Getenv(envName(configFlag))
	}
	var known []byte
	if path != "" {
		// Before it is read below, so that no change is missed.
		known, _ = regularfile.Read(path, maxConfig)
	}
	o, err := again(cmd.Flags())
	if err != nil {
		return err
	}
	cfg := o.cfg
	log, level, err := newLogger(o.level, cfg.Logs.Format)
	if err != nil {
		return err
	}
	defer func() { err = logEnd(log, cfg.Logs.Format, err) }()
	cfg.Log, cfg.Version = log, thisBuild().version
	if err := o.cluster.allow("serve", cluster.RoleRouter); err != nil {
		return err
	}
	l := newLifecycle(sockets, o.cluster.listen != "", log)
	cfg.Sockets = l.given()
	if cfg.Cluster.Conn, err = o.cluster.open(cmd.Context(), "warmpath serve", log); err != nil {
		return err
	}
	if cfg.Cluster.Conn != nil {
		defer cfg.Cluster.Conn.Close()
		log.Info("warmpath is in a cluster", "nats", cfg.Cluster.Conn.URL(), "embedded", cfg.Cluster.Conn.Status().Embedded)
	}
	setMemoryLimit(cfg.Memory.Bound(), 0)
	d, err := router.New(cfg)
	if err != nil {
		return err
	}
	l.router = d
	log.Info("warmpath serves", "listen", d.Addr(), "operator", d.OperatorAddr(), "tls", cfg.TLS.Cert != "", "policy", cfg.Policy.Name,
		"workers", len(cfg.Sources.Workers), "prefill", len(cfg.Sources.Prefill), "decode", len(cfg.Sources.Decode), "sources", len(cfg.Sources.Discover))
	if len(cfg.Sources.Workers)+len(cfg.Sources.Prefill)+len(cfg.Sources.Decode)+len(cfg.Sources.Discover) == 0 && cfg.Cluster.Conn == nil {
		// Sidecars tell of theirs.
		log.Warn("no workers yet: give --worker, or --prefill and --decode, or --discover, or --cluster, or POST /workers")
	}
	r := &reloader{given: cmd.Flags(), router: d, shared: cfg.Cluster.Conn, level: level}
	if cfg.ConfigFile != "" {
		ctx, stop := context.WithCancel(cmd.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer stop()
		watching.Go(func() {
			if err := r.watch(ctx, cfg.ConfigFile, known); err != nil {
				log.Warn("the configuration is reloaded on SIGHUP only", "error", err)
			}
		})
	}
	defer signals.obey(func(sig os.Signal) {
		if sig == upgradeSignal {
			l.upgrade()
			return
		}
		l.notify.Reload(func() {
			d.ReopenLogs()
			r.reload()
			d.ReloadFiles()
		})
		if !reloadable(&cfg) && !fromFile(cmd.Flags(), "operator-key") {
			log.Info("nothing to reload on SIGHUP: there is no --config file, certificate, key file or access log")
		}
	})()
	return l.run(cmd.Context())
}

// reloadable reports whether a router has a file that SIGHUP has read or opened again.
func reloadable(cfg *router.Config) bool {
	t, w := &cfg.TLS, &cfg.WorkerTLS
	return cmp.Or(cfg.ConfigFile, cfg.Logs.Access, cfg.Sources.KeyFile, t.Cert, w.CA, w.Cert) != ""
}

// flags are those of `warmpath serve`.
func (o *serveOptions) flags(f *pflag.FlagSet) {
	cfg := &o.cfg
	configFlags(f, "read again on SIGHUP and when it changes; settings that need a restart are named in the log")
	o.cluster.flags(f)
	routerFlags(f, cfg)
	listenTLSFlags(f, &cfg.TLS)
	workerTLSFlags(f, &cfg.WorkerTLS)
	workerKeyFlag(f, &cfg.Sources.KeyFile)
	workerFlags(f, cfg)
	replicaFlags(f, cfg)
	f.StringVar(&cfg.Snapshot.File, "snapshot", "",
		"`FILE` that keeps the index for the next run; keep it secret, since it holds the hash seed")
	f.DurationVar(&cfg.Snapshot.Interval, "snapshot-interval", time.Minute, "time between two writes of --snapshot, which is also written at shutdown")
	f.StringVar(&cfg.Logs.Access, "access-log", "",
		"append a line of JSON for each request, without its text, to `FILE`: a trace for bench policies and bench replay; SIGHUP reopens it")
	logFlags(f, &o.level, &cfg.Logs.Format, "info")
}

// routerFlags are the flags of every command that routes.
func routerFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:8000", "`ADDRESS` for clients")
	f.StringVar(&cfg.Operator.Listen, "operator-listen", "", "`ADDRESS` for the operator API (default: the clients' address)")
	secretFlag(f, &cfg.Operator.Key, "operator-key", "bearer token of the operator API, needed off loopback")
	f.StringSliceVar(&cfg.Operator.Hosts, "operator-host", nil,
		"`NAME` or NAME:PORT under which a proxy reaches the operator API without a key, besides localhost and loopback addresses; may be repeated")
	f.StringVar(&cfg.Requests.Audience, "answer-headers", "",
		"clients that get the X-Warmpath-* headers of answers, which name the worker and the cached part of the prompt: all, operators "+
			"(requests with --operator-key as their bearer token) or none (default: all on a --listen of loopback, else operators)")
	f.StringSliceVar(&cfg.Sources.Allow, "worker-allow", nil,
		"`NETWORK` or address where workers are allowed, such as 10.0.0.0/8; may be repeated (default: all but link-local, multicast and the clouds' metadata)")
	policyFlags(f, cfg)
	f.IntVar(&cfg.Requests.MaxBodyBytes, "max-body-bytes", 64<<20, "largest request body; beyond it the answer is 413")
	f.IntVar(&cfg.Requests.GzipMinBytes, "gzip-min-bytes", 4<<10,
		"compress JSON answers from this size on for clients that ask (Accept-Encoding: gzip), streams never; -1: none")
	f.Int64Var(&cfg.Memory.Index, "index-max-bytes", 0,
		"memory for the index; beyond it the least used blocks are evicted; -1: no bound "+
			"(default a quarter of what the machine or its control group has)")
	f.Int64Var(&cfg.Memory.Approx, "approx-max-bytes", 64<<20, "memory for the tree of sent prompts, as sglang-router's cache_aware has one, for workers without KV events")
	f.Int64Var(&cfg.Memory.PromptCache, "session-max-bytes", 64<<20, "memory for chats that were tokenized before, whose beginnings are not tokenized again")
	f.StringVar(&cfg.Tokenize.By, "tokenize", config.TokenizeAuto,
		"source of token ids of text and chats: auto (the router, once ids from a model's files equal the workers') or workers")
	f.StringArrayVar(&cfg.Tokenize.ModelPaths, "model-path", nil,
		"`NAME=DIR` with the tokenizer.json and chat template of a served model, or DIR for all; OWNER/MODEL or OWNER/MODEL@REVISION as DIR is a model of "+
			"Hugging Face's hub, whose tokenizer is fetched where its cache has not got it; may be repeated (default: where the workers have it)")
	f.StringArrayVar(&cfg.Tokenize.AllowedPaths, "allow-model-path", nil,
		"`DIR` below which workers may name files of their models; may be repeated (always: /models, the hub's cache, and the folders of --model-path)")
	f.BoolVar(&cfg.Tokenize.ForwardIDs, "forward-input-ids", false,
		"send plain chats with their token ids, so that the worker does not tokenize them; only while the last 32 compared prompts equal the worker's")
	f.StringVar(&cfg.Logs.Traces, "otlp-endpoint", cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")),
		"`URL` of an OpenTelemetry collector, such as http://127.0.0.1:4318, that receives the spans of requests by OTLP over HTTP; "+
			"also OTEL_EXPORTER_OTLP_ENDPOINT, with OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and OTEL_SERVICE_NAME")
	f.Lookup("otlp-endpoint").DefValue = ""
	clientFlags(f, cfg)
	queueFlags(f, cfg)
	pairFlags(f, cfg)
	hintFlags(f, cfg)
	cfg.Requests.Retries = 3
	f.Var((*retries)(&cfg.Requests.Retries), "retries", "other workers to try while no answer has begun; 0: none")
	f.DurationVar(&cfg.Requests.Quarantine, "quarantine", 0, "time for which copies of a request that was in flight at the death of two engines are refused (default: not refused)")
	f.DurationVar(&cfg.Probes.Interval, "probe-interval", 0, "time between two GET /ready of a worker (default 250ms)")
	f.DurationVar(&cfg.Probes.Timeout, "probe-timeout", 0, "longest time of one GET /ready; a worker that exceeds it is avoided (default 500ms)")
	f.DurationVar(&cfg.Probes.HangAfter, "hang-after", 0, "time without an answer to probes after which a worker's waiting requests go to another one (default 5s)")
	f.DurationVar(&cfg.Timeouts.FirstByte, "first-byte-timeout", 0, "longest wait for an answer to begin (default 30m)")
	f.DurationVar(&cfg.Timeouts.Stall, "stall-timeout", 0, "longest pause within an answer (default 10m)")
	f.DurationVar(&cfg.Timeouts.Drain, "drain-timeout", 0, "time that requests in flight get at shutdown (default 30s)")
}

// retries is a number of retries, in which 0 is none and not the default.
type retries int

// String implements pflag.Value.
func (r *retries) String() string { return strconv.Itoa(max(int(*r), 0)) }

// Type implements pflag.Value.
func (*retries) Type() string { return "int" }

// Set implements pflag.Value.
func (r *retries) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return errors.New("want a number from 0 to 65535")
	}
	*r = retries(n)
	if n == 0 {
		*r = -1
	}
	return nil
}
