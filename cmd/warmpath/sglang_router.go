package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/warmpath/warmpath/dataplane/modelfile"
)

// sglangFlag translates a flag of sglang-router, whose command lines warmpath serve takes.
type sglangFlag struct {
	values int    // that stand behind it; manyValues: all until the next flag
	to     string // the flag of warmpath serve that takes each value
	unit   string // added to a value, as s for seconds
	fixed  string // the value for to, where the flag has none or another one is meant
	note   string // why it does nothing here
	refuse string // another way, where leaving it out would change answers
}

const manyValues = -1

const (
	noteCost    = "kv weighs cached tokens against queued work in predicted seconds; there is nothing to tune"
	noteTree    = "the index has what workers hold by their KV events, within --index-max-bytes"
	noteRetry   = "another worker is tried at once, for as long as nothing of an answer was sent and the retry budget lasts"
	noteBreaker = "breakers open and close by the answers of all clients; see /status"
	noteProbes  = "workers are asked GET /ready four times a second; see --probe-interval, --probe-timeout and --hang-after"
	noteTokens  = "token ids are made by the router and kept within --session-max-bytes"
	noteStart   = "workers are used as soon as they are ready, whenever that is"
	noteParser  = "the workers parse: give it to sglang.launch_server"
	noteHistory = "the worker that answered keeps a response, and /v1/responses/{id} goes there"
	noteControl = "the operator's API has one key, --operator-key"

	notePods      = "workers are the endpoints of the services with these labels; sglang-router looks at the labels of pods, so give them to the service too"
	noteNamespace = "without --service-discovery-namespace it is that of the router's own pod, not all"
	refusePods    = "it needs --selector, or --prefill-selector and --decode-selector"
	refuseGRPC    = "workers are asked by HTTP: start them without --grpc-mode, and give http://host:port"
	refuseHistory = "responses are kept by the worker that answered, not in a database"
	refuseKey     = "keys are read from files: the workers' with --worker-api-key-file FILE, the clients' with --client-keys FILE, which warmpath key new fills"
)

// sglangFlags are the flags of sglang-router (router_args.py in SGLang's sgl-model-gateway), with
// those of older versions and of smg.
var sglangFlags = map[string]sglangFlag{
	"host":        {values: 1},
	"port":        {values: 1},
	"worker-urls": {values: manyValues, to: "worker"},
	"prefill":     {values: manyValues},
	"decode":      {values: 1, to: "decode"},

	"policy":                      {values: 1},
	"prefill-policy":              {values: 1, note: "one choice takes both workers of a pair"},
	"decode-policy":               {values: 1, note: "one choice takes both workers of a pair"},
	"cache-threshold":             {values: 1, note: noteCost},
	"balance-abs-threshold":       {values: 1, note: noteCost},
	"balance-rel-threshold":       {values: 1, note: noteCost},
	"bucket-adjust-interval-secs": {values: 1, note: noteCost},
	"eviction-interval-secs":      {values: 1, note: noteTree},
	"eviction-interval":           {values: 1, note: noteTree},
	"max-tree-size":               {values: 1, note: noteTree},
	"max-idle-secs":               {values: 1, note: "sessions are kept while their worker has them in cache"},
	"redis-key-prefix":            {values: 1, note: "routers share what they know by --cluster, without Redis"},
	"prefix-token-count":          {values: 1, note: noteCost},
	"prefix-hash-load-factor":     {values: 1, note: noteCost},
	"model-id":                    {values: 1, note: "the workers' models are served, as they name them"},
	"assignment-mode":             {values: 1, note: "a new session goes where its first token comes first"},
	"max-payload-size":            {values: 1, to: "max-body-bytes"},
	"dp-aware":                    {note: "ranks of data parallelism are always told apart"},
	"enable-igw":                  {note: "several models are always served"},
	"mini-lb":                     {note: "there is one router"},
	"pd-disaggregation":           {},

	"worker-startup-timeout-secs":   {values: 1, note: noteStart},
	"worker-startup-check-interval": {values: 1, note: noteStart},
	"log-dir":                       {values: 1, note: "the log goes to standard error, requests to --access-log FILE"},
	"log-level":                     {values: 1, to: "log-level"},

	"service-discovery":           {},
	"selector":                    {values: manyValues},
	"prefill-selector":            {values: manyValues},
	"decode-selector":             {values: manyValues},
	"service-discovery-port":      {values: 1, note: "the service's port is used: the one named http, or its only one"},
	"service-discovery-namespace": {values: 1},
	"bootstrap-port-annotation":   {values: 1, note: "the worker reports its bootstrap port, or the service has it as its port bootstrap"},

	"prometheus-port":             {values: 1},
	"prometheus-host":             {values: 1},
	"prometheus-duration-buckets": {values: manyValues, note: "the buckets are fixed; docs/reference/metrics.md lists them"},
	"request-id-headers":          {values: manyValues, note: "X-Request-ID is read, or made, and answered"},
	"request-timeout-secs":        {values: 1, to: "first-byte-timeout", unit: "s"},
	"shutdown-grace-period-secs":  {values: 1, to: "drain-timeout", unit: "s"},
	"cors-allowed-origins":        {values: manyValues, to: "cors-allowed-origins"},

	"max-concurrent-requests":      {values: 1},
	"queue-size":                   {values: 1},
	"queue-timeout-secs":           {values: 1, to: "queue-timeout", unit: "s"},
	"rate-limit-tokens-per-second": {values: 1, note: "rates are those of a key: warmpath key new --help"},

	"retry-max-retries":        {values: 1, to: "retries"},
	"disable-retries":          {to: "retries", fixed: "0"},
	"retry-initial-backoff-ms": {values: 1, note: noteRetry},
	"retry-max-backoff-ms":     {values: 1, note: noteRetry},
	"retry-backoff-multiplier": {values: 1, note: noteRetry},
	"retry-jitter-factor":      {values: 1, note: noteRetry},

	"cb-failure-threshold":     {values: 1, note: noteBreaker},
	"cb-success-threshold":     {values: 1, note: noteBreaker},
	"cb-timeout-duration-secs": {values: 1, note: noteBreaker},
	"cb-window-duration-secs":  {values: 1, note: noteBreaker},
	"disable-circuit-breaker":  {note: noteBreaker},

	"health-failure-threshold":   {values: 1, note: noteProbes},
	"health-success-threshold":   {values: 1, note: noteProbes},
	"health-check-timeout-secs":  {values: 1, note: noteProbes},
	"health-check-interval-secs": {values: 1, note: noteProbes},
	"health-check-endpoint":      {values: 1, note: noteProbes},
	"disable-health-check":       {note: noteProbes},

	"model-path":                     {values: 1},
	"tokenizer-path":                 {values: 1},
	"chat-template":                  {values: 1, refuse: "chats are read as the workers render them: give it to sglang.launch_server"},
	"tokenizer-cache-enable-l0":      {note: noteTokens},
	"tokenizer-cache-l0-max-entries": {values: 1, note: noteTokens},
	"tokenizer-cache-enable-l1":      {note: noteTokens},
	"tokenizer-cache-l1-max-memory":  {values: 1, note: noteTokens},
	"reasoning-parser":               {values: 1, note: noteParser},
	"tool-call-parser":               {values: 1, note: noteParser},
	"mcp-config-path":                {values: 1, refuse: "the router calls no tools: put what does in front"},

	"backend":                   {values: 1},
	"history-backend":           {values: 1},
	"oracle-wallet-path":        {values: 1, refuse: refuseHistory},
	"oracle-tns-alias":          {values: 1, refuse: refuseHistory},
	"oracle-connect-descriptor": {values: 1, refuse: refuseHistory},
	"oracle-username":           {values: 1, refuse: refuseHistory},
	"oracle-password":           {values: 1, refuse: refuseHistory},
	"oracle-pool-min":           {values: 1, note: noteHistory},
	"oracle-pool-max":           {values: 1, note: noteHistory},
	"oracle-pool-timeout-secs":  {values: 1, note: noteHistory},
	"postgres-db-url":           {values: 1, refuse: refuseHistory},
	"postgres-pool-max":         {values: 1, note: noteHistory},
	"redis-url":                 {values: 1, refuse: refuseHistory},
	"redis-pool-max":            {values: 1, note: noteHistory},
	"redis-retention-days":      {values: 1, note: noteHistory},

	"client-cert-path": {values: 1, to: "worker-cert"},
	"client-key-path":  {values: 1, to: "worker-key"},
	"ca-cert-paths":    {values: manyValues},
	"tls-cert-path":    {values: 1, to: "tls-cert"},
	"tls-key-path":     {values: 1, to: "tls-key"},

	"enable-trace":         {},
	"otlp-traces-endpoint": {values: 1},

	"api-key":                     {values: 1, refuse: refuseKey},
	"control-plane-api-keys":      {values: manyValues, refuse: noteControl},
	"control-plane-audit-enabled": {note: "the log has a line for each change"},
	"jwt-issuer":                  {values: 1, refuse: noteControl},
	"jwt-audience":                {values: 1, refuse: noteControl},
	"jwt-jwks-uri":                {values: 1, refuse: noteControl},
	"jwt-role-mapping":            {values: manyValues, refuse: noteControl},
}

// sglangPolicies translates the policies of sglang-router.
var sglangPolicies = map[string]struct {
	policy   string
	affinity bool
	note     string
}{
	"cache_aware":        {policy: "kv"},
	"round_robin":        {policy: "round-robin"},
	"random":             {policy: "random"},
	"power_of_two":       {policy: "power-of-two"},
	"prefix_hash":        {policy: "kv", note: "kv knows which worker holds a prefix; nothing is hashed"},
	"bucket":             {policy: "kv", note: "kv predicts what a prompt's length costs on each worker"},
	"manual":             {policy: "kv", affinity: true, note: "--session-affinity keeps a session that the client names (session_id, X-Session-ID, …) on its worker"},
	"consistent_hashing": {policy: "kv", affinity: true, note: "--session-affinity keeps a session that the client names (session_id, X-Session-ID, …) on its worker"},
}

// number is a value that looks like a flag, as argparse has it.
var number = regexp.MustCompile(`^-\d`)

// migration translates a command line of sglang-router.
type migration struct {
	args    []string // of warmpath serve
	notes   []string
	refused []error

	host, port               string
	metricsHost, metricsPort string
	tokenizer, model         string
	pods                     bool // of Kubernetes
	namespace                string
	selectors                [3][]string // labels of regular, prefill and decode workers
	traces                   bool
	tracesEndpoint           string
}

// isSGLangLine reports whether arguments of serve are sglang-router's: one has a flag, or a form of
// one, that only that has.
func isSGLangLine(args []string, own func(name string) bool) bool {
	for i, arg := range args {
		name, value, joined := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if arg == "--" {
			return false
		}
		if _, known := sglangFlags[name]; !known || name == arg {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch {
		case !own(name):
			return true
		case name == "policy":
			if p, theirs := sglangPolicies[value]; theirs && p.policy != value {
				return true
			}
		case (name == "prefill" || name == "cors-allowed-origins") && !joined && i+2 < len(args) && !strings.HasPrefix(args[i+2], "-"):
			return true
		}
	}
	return false
}

// migrate translates the arguments of sglang-router. Flags that only serve has stay as they are.
func migrate(args []string) (*migration, error) {
	m := &migration{metricsPort: "29000"}
	type given struct {
		name   string
		values []string
	}
	var all []given
	last := map[string]int{}
	for i := 0; i < len(args); {
		arg := args[i]
		name, value, joined := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		f, known := sglangFlags[name]
		i++
		if !known || name == arg {
			all = append(all, given{values: []string{arg}})
			continue
		}
		var values []string
		if joined {
			values = []string{value}
		}
		for !joined && i < len(args) && len(values) != f.values && (!strings.HasPrefix(args[i], "-") || number.MatchString(args[i])) {
			values = append(values, args[i])
			i++
		}
		if f.values > 0 && len(values) != f.values {
			return nil, fmt.Errorf("--%s of sglang-router wants a value", name)
		}
		if f.values == 0 && joined {
			return nil, fmt.Errorf("--%s of sglang-router takes no value", name)
		}
		last[name] = len(all)
		all = append(all, given{name, values})
	}
	_, never := last["disable-retries"]
	for i, g := range all {
		f, known := sglangFlags[g.name]
		switch {
		case !known:
			m.args = append(m.args, g.values...)
		case g.name != "prefill" && g.name != "decode" && last[g.name] != i:
			// argparse takes the last.
		case never && g.name == "retry-max-retries":
		default:
			m.take(g.name, &f, g.values)
		}
	}
	m.finish()
	return m, errors.Join(m.refused...)
}

func (m *migration) give(flag, value string) { m.args = append(m.args, "--"+flag, value) }

// note says why a flag does nothing, in one line: a file has it as a comment.
func (m *migration) note(name, why string) {
	why = strings.Join(strings.FieldsFunc(why, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }), " ")
	m.notes = append(m.notes, "--"+name+": "+why)
}

func (m *migration) refuse(name, why string) {
	m.refused = append(m.refused, fmt.Errorf("cannot take --%s of sglang-router: %s", name, why))
}

// take translates one flag.
func (m *migration) take(name string, f *sglangFlag, values []string) {
	value := ""
	if len(values) > 0 {
		value = values[0]
	}
	switch {
	case f.refuse != "":
		m.refuse(name, f.refuse)
		return
	case f.note != "":
		m.note(name, f.note)
		return
	case f.fixed != "":
		m.give(f.to, f.fixed)
		return
	case f.to != "":
		for _, v := range values {
			if strings.HasPrefix(v, "grpc://") {
				m.refuse(name, refuseGRPC)
				return
			}
			m.give(f.to, v+f.unit)
		}
		return
	}
	switch name {
	case "host":
		m.host = value
	case "port":
		m.port = value
	case "policy":
		m.takePolicy(value)
	case "prefill":
		m.takePrefill(values)
	case "service-discovery":
		m.pods = true
	case "service-discovery-namespace":
		m.namespace = value
	case "selector":
		m.selectors[0] = values
	case "prefill-selector":
		m.selectors[1] = values
	case "decode-selector":
		m.selectors[2] = values
	case "prometheus-host":
		m.metricsHost = value
	case "prometheus-port":
		m.metricsPort = value
	case "max-concurrent-requests":
		if value != "-1" {
			m.note(name, "a worker gets as many requests as its batch limit and an eighth, see --max-in-flight-per-worker; further ones wait, see --queue-max")
		}
	case "queue-size":
		if value == "0" {
			value = "-1"
		}
		m.give("queue-max", value)
	case "model-path":
		m.model = value
	case "tokenizer-path":
		m.tokenizer = value
	case "ca-cert-paths":
		if len(values) > 1 {
			m.refuse(name, "put the certificates into one file, for --worker-ca")
			return
		}
		m.give("worker-ca", value)
	case "enable-trace":
		m.traces = true
	case "otlp-traces-endpoint":
		m.tracesEndpoint = value
	case "backend":
		if value != "sglang" {
			m.refuse(name, "workers are SGLang's")
		}
	case "history-backend":
		if value != "memory" && value != "none" {
			m.refuse(name, refuseHistory)
			return
		}
		m.note(name, noteHistory)
	}
}

func (m *migration) takePolicy(value string) {
	p, theirs := sglangPolicies[value]
	if !theirs { // serve says which there are
		m.give("policy", value)
		return
	}
	m.give("policy", p.policy)
	if p.affinity {
		m.args = append(m.args, "--session-affinity")
	}
	if p.note != "" {
		m.note("policy "+value, p.note)
	}
}

// takePrefill translates URL and bootstrap port.
func (m *migration) takePrefill(values []string) {
	switch {
	case len(values) > 0 && strings.HasPrefix(values[0], "grpc://"):
		m.refuse("prefill", refuseGRPC)
	case len(values) == 0:
		m.refuse("prefill", "it wants a URL, and the bootstrap port where the worker does not tell it")
	case len(values) == 1, strings.EqualFold(values[1], "none"):
		m.give("prefill", values[0])
	default:
		m.give("prefill", values[0]+","+values[1])
	}
}

// finish translates flags that mean something together.
func (m *migration) finish() {
	listens := slices.ContainsFunc(m.args, isFlag("listen"))
	if listens && (m.host != "" || m.port != "") {
		m.refuse("host and --port", "give either them or --listen")
	}
	if !listens {
		if m.host == "" {
			m.host = "0.0.0.0"
		}
		if m.port == "" {
			m.port = "30000"
		}
		m.give("listen", net.JoinHostPort(strings.Trim(m.host, "[]"), m.port))
	}
	if !slices.ContainsFunc(m.args, isFlag("operator-listen")) && !slices.ContainsFunc(m.args, isFlag("operator-key")) {
		at := net.JoinHostPort("127.0.0.1", m.metricsPort)
		m.give("operator-listen", at)
		if m.metricsHost != "" && !net.ParseIP(m.metricsHost).IsLoopback() {
			m.note("prometheus-host", "metrics come with the operator's API at "+at+"; for other hosts give --operator-listen "+
				net.JoinHostPort(m.metricsHost, m.metricsPort)+" with --operator-key @FILE, which the scraper then shows as its bearer token")
		}
	}
	name, path := "model-path", m.model
	if m.tokenizer != "" {
		name, path = "tokenizer-path", m.tokenizer
	}
	if path != "" {
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			m.note(name, path+" is a file; the workers' own files are read")
		} else if _, atHub := modelfile.OperatorHubName(path); err == nil || atHub {
			m.give("model-path", path)
		} else {
			m.note(name, path+" is no folder here, nor OWNER/MODEL at Hugging Face's hub; the files are read where the workers have them, or in the hub's cache")
		}
	}
	if m.pods {
		m.discover()
	}
	if m.traces {
		at := "http://" + net.JoinHostPort(hostOf(m.tracesEndpoint), "4318")
		m.give("otlp-endpoint", at)
		m.note("otlp-traces-endpoint", "spans go by OTLP over HTTP, to "+at)
	}
	slices.Sort(m.notes)
	m.notes = slices.Compact(m.notes)
}

// discover translates the selectors of --service-discovery, one source each.
func (m *migration) discover() {
	given := false
	for i, role := range []string{"", "prefill", "decode"} {
		if len(m.selectors[i]) == 0 {
			continue
		}
		given = true
		options := url.Values{"selector": {strings.Join(m.selectors[i], ",")}}
		if role != "" {
			options.Set("role", role)
		}
		m.give("discover", "kubernetes:"+m.namespace+"/?"+options.Encode())
	}
	if !given {
		m.refuse("service-discovery", refusePods)
		return
	}
	m.note("service-discovery", notePods)
	if m.namespace == "" {
		m.note("service-discovery", noteNamespace)
	}
}

// hostOf returns the host of an address, which may be a URL and have no port.
func hostOf(addr string) string {
	if !strings.Contains(addr, "://") {
		addr = "//" + addr
	}
	if u, err := url.Parse(addr); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return "localhost"
}

// isFlag finds a flag among arguments, with its value behind it or behind a =.
func isFlag(name string) func(arg string) bool {
	return func(arg string) bool { return arg == "--"+name || strings.HasPrefix(arg, "--"+name+"=") }
}

// adopt returns the arguments of warmpath, with a command line of sglang-router behind serve or
// config translated, and says which flags do nothing.
func adopt(args []string, out io.Writer) ([]string, error) {
	if len(args) == 0 || args[0] != "serve" && args[0] != "config" {
		return args, nil
	}
	own := newServeCommand().Flags()
	if !isSGLangLine(args[1:], func(name string) bool { return own.Lookup(name) != nil }) {
		return args, nil
	}
	m, err := migrate(args[1:])
	if err != nil {
		return nil, err
	}
	for _, note := range m.notes {
		fmt.Fprintln(out, "warmpath: "+note)
	}
	return append([]string{args[0]}, m.args...), nil
}
