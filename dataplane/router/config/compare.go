package config

import (
	"reflect"
	"slices"
)

// live maps the settings that can change at run time to their flags. TLS files need no reload:
// they are read again when they change.
var live = map[string]string{
	"Operator.Key": "operator-key", "Sources.Workers": "worker", "Sources.Prefill": "prefill", "Sources.Decode": "decode",
	"Sources.Discover": "discover", "Policy.Name": "policy", "Policy.Options": "policy's options",
	"Probes.Interval": "probe-interval", "Probes.Timeout": "probe-timeout", "Probes.HangAfter": "hang-after",
	"Requests.MaxBodyBytes": "max-body-bytes", "Requests.GzipMinBytes": "gzip-min-bytes", "Requests.Retries": "retries", "Requests.Audience": "answer-headers", "Requests.TrustPriority": "trust-priority", "Requests.Origins": "cors-allowed-origins", "Requests.Clients.CacheSalt": "client-cache-salt",
	"Requests.MaxInFlight": "max-in-flight-per-worker", "Pairs.Timeout": "pair-timeout", "Pairs.PrefillTimeout": "prefill-timeout",
	"Pairs.Headers": "pair-headers", "Timeouts.FirstByte": "first-byte-timeout", "Timeouts.Stall": "stall-timeout",
	"Timeouts.Drain": "drain-timeout", "Requests.Clients.Max": "max-clients", "Requests.Clients.PerAddress": "max-clients-per-address",
	"Requests.Clients.Idle": "client-idle-timeout", "Requests.Clients.Request": "client-request-timeout", "Requests.Clients.MinRate": "client-min-rate",
	"Requests.Clients.Stall": "client-stall-timeout",
}

// fixed maps the settings that need a restart to their flags.
var fixed = map[string]string{
	"Listen": "listen", "Sources.Allow": "worker-allow", "Operator.Listen": "operator-listen", "Operator.Hosts": "operator-host", "Policy.SessionAffinity": "session-affinity",
	"Memory.Index": "index-max-bytes", "Memory.Approx": "approx-max-bytes", "Memory.PromptCache": "session-max-bytes",
	"Tokenize.By": "tokenize", "Tokenize.ForwardIDs": "forward-input-ids",
	"Tokenize.ModelPaths": "model-path", "Tokenize.AllowedPaths": "allow-model-path", "Queue.Max": "queue-max", "Queue.Timeout": "queue-timeout", "Queue.FIFO": "queue-fifo",
	"Logs.LintSample": "lint-sample", "Logs.Access": "access-log", "Logs.Format": "log-format", "Logs.Traces": "otlp-endpoint", "Pairs.MinUncached": "disagg-min-uncached",
	"TLS": "tls-cert, tls-key or tls-client-ca", "WorkerTLS": "worker-ca, worker-cert, worker-key or worker-tls-insecure",
	"Sources.KeyFile": "worker-api-key-file",
	"Snapshot.File":   "snapshot", "Snapshot.Interval": "snapshot-interval", "Cluster.Peers": "replicas",
	"Cluster.Hints": "kv-hints", "Cluster.Joined": "cluster", "Cluster.Wait": "cluster-wait", "Requests.Quarantine": "quarantine",
	"Requests.Clients.MaxHead": "max-head-bytes", "Requests.Clients.Keys": "client-keys", "Requests.Clients.JWKS": "client-jwks", "Requests.Clients.Issuer": "client-jwt-issuer", "Requests.Clients.TokenAudience": "client-jwt-audience", "Requests.Proxies": "trusted-proxy",
}

// noSettings are fields that no operator sets.
var noSettings = []string{"Cluster.Conn", "Node", "Sockets", "ConfigFile", "Version", "Log"}

// Changed returns the flags of the settings in which two configurations differ, sorted: first
// those that can change at run time, then those that need a restart.
func Changed(a, b *Config) (canChange, needRestart []string) {
	eachSetting(reflect.TypeFor[Config](), nil, "", func(name string, index []int) {
		fa, fb := reflect.ValueOf(*a).FieldByIndex(index), reflect.ValueOf(*b).FieldByIndex(index)
		empty := fa.Kind() == reflect.Slice && fa.Len() == 0 && fb.Len() == 0 // nil or not
		switch flag, can := live[name]; {
		case slices.Contains(noSettings, name), empty, reflect.DeepEqual(fa.Interface(), fb.Interface()):
		case can:
			canChange = append(canChange, flag)
		case fixed[name] != "":
			needRestart = append(needRestart, fixed[name])
		default:
			needRestart = append(needRestart, name)
		}
	})
	slices.Sort(canChange)
	slices.Sort(needRestart)
	return canChange, needRestart
}

// eachSetting calls f with the path of each setting: fields of nested structs, unless the
// struct as a whole is one.
func eachSetting(t reflect.Type, index []int, prefix string, f func(name string, index []int)) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, at := prefix+field.Name, append(slices.Clone(index), i)
		if field.Type.Kind() == reflect.Struct && fixed[name] == "" && live[name] == "" {
			eachSetting(field.Type, at, name+".", f)
			continue
		}
		f(name, at)
	}
}
