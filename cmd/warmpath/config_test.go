package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// serveFlags parses a command line of warmpath serve.
func serveFlags(t *testing.T, args ...string) (*serveOptions, *pflag.FlagSet) {
	t.Helper()
	o, f := &serveOptions{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags(f)
	require.NoError(t, f.Parse(args))
	return o, f
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warmpath.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConfigPrecedence(t *testing.T) {
	path := configFile(t, `
# a comment
listen: 127.0.0.1:1
policy: lmetric
retries: 7
probe-interval: 20ms
forward-input-ids: true
worker: [http://a:1, http://b:1]
prefill:
  - http://p:1,8998
decode: http://d:1
discover: []
`)
	o, f := serveFlags(t, "--config", path, "--listen", "127.0.0.1:2", "--discover", "file:x")
	from, err := configure(f, []string{"WARMPATH_POLICY=kv", "WARMPATH_LISTEN=127.0.0.1:3", "WARMPATH_PORT=tcp://10.0.0.1:80", "OTHER=x"})
	require.NoError(t, err)
	cfg := o.cfg
	require.Equal(t, "127.0.0.1:2", cfg.Listen, "flag before environment and file")
	require.Equal(t, "kv", cfg.Policy.Name, "environment before file")
	require.Equal(t, 7, cfg.Requests.Retries)
	require.Equal(t, 20*time.Millisecond, cfg.Probes.Interval)
	require.True(t, cfg.Tokenize.ForwardIDs)
	require.Equal(t, []string{"http://a:1", "http://b:1"}, cfg.Sources.Workers)
	require.Equal(t, []string{"http://p:1,8998"}, cfg.Sources.Prefill)
	require.Equal(t, []string{"http://d:1"}, cfg.Sources.Decode)
	require.Equal(t, []string{"file:x"}, cfg.Sources.Discover)
	require.Equal(t, "info", o.level, "default")
	require.Equal(t, "flag", from["listen"])
	require.Equal(t, "WARMPATH_POLICY", from["policy"])
	require.Equal(t, path+":5", from["retries"])

	again, err := again(f)
	require.NoError(t, err)
	again.cfg.Policy.Name = cfg.Policy.Name // whose variable is the test's own
	cfg.ConfigFile, cfg.Cluster.Joined = path, o.cluster
	require.Equal(t, cfg, again.cfg, "what is read anew is the same")
}

func TestListsFromTheEnvironment(t *testing.T) {
	o, f := serveFlags(t)
	_, err := configure(f, []string{
		"WARMPATH_WORKER=http://a:1, https://b:1,http://c:1", "WARMPATH_PREFILL=http://p:1,8998,http://q:1,pf.example:9000\nhttp://r:1",
		"WARMPATH_DISCOVER=etcd:a:1,b:1/x,file:y,dns-srv:_z._tcp.e", "WARMPATH_MODEL_PATH=a=b,c",
	})
	require.NoError(t, err)
	require.Equal(t, []string{"http://a:1", "https://b:1", "http://c:1"}, o.cfg.Sources.Workers)
	require.Equal(t, []string{"http://p:1,8998", "http://q:1,pf.example:9000", "http://r:1"}, o.cfg.Sources.Prefill)
	require.Equal(t, []string{"etcd:a:1,b:1/x", "file:y", "dns-srv:_z._tcp.e"}, o.cfg.Sources.Discover)
	require.Equal(t, []string{"a=b", "c"}, o.cfg.Tokenize.ModelPaths)
}

func TestBadConfig(t *testing.T) {
	tests := map[string][]string{
		"\nlisen: x":                        {`line 2: there is no setting "lisen": is listen meant?`},
		"probe_interval: 1s":                {"is probe-interval meant?"},
		"Workers: [x]":                      {"is worker meant?"},
		"zzzzzzzzzzzz: 1":                   {`there is no setting "zzzzzzzzzzzz"`},
		"config: other.yaml":                {"a file cannot name another one"},
		"help: true":                        {`there is no setting "help"`},
		"retries: many\npolicy: kv":         {`line 1: cannot use retries "many"`},
		"retries: [1]":                      {"line 1: retries takes one value, not a list"},
		"worker:\n  - http://a\n  - b: c":   {"line 3: worker: want a value, or a list of values"},
		"listen:":                           {"line 1: listen: want a value"},
		"listen: a:1\nlisten: b:1":          {"line 2: listen is in line 1 already"},
		" \n":                               {"line 1: nothing is there"},
		"- listen":                          {"line 1: want keys and values"},
		"listen: 'x":                        {"line 1"},
		"a: 1\nb: 2":                        {"line 1:", "line 2:"},
		"forward-input-ids: yes please":     {`cannot use forward-input-ids "yes please"`},
		strings.Repeat("# filler\n", 1<<17): {"larger than"},
	}
	for text, wants := range tests {
		_, f := serveFlags(t, "--config", configFile(t, text), "--listen", "127.0.0.1:2")
		_, err := configure(f, nil)
		require.ErrorIs(t, err, errConfig, text)
		for _, want := range wants {
			require.ErrorContains(t, err, want, text)
		}
	}
	_, f := serveFlags(t, "--config", "/not/there")
	_, err := configure(f, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, f = serveFlags(t)
	_, err = configure(f, []string{"WARMPATH_RETRIES=x", "WARMPATH_OPERATOR_KEY=sesame"})
	require.ErrorContains(t, err, "cannot use WARMPATH_RETRIES=x")
}

// TestConfigChecksWhatDoesNotCount finds mistakes in values that a flag overrides, and leaves the flag's own.
func TestConfigChecksWhatDoesNotCount(t *testing.T) {
	o, f := serveFlags(t, "--config", configFile(t, "retries: x\nworker: [http://b:1]\npolicy: lmetric"), "--retries", "5", "--worker", "http://a:1", "--policy", "kv")
	_, err := configure(f, nil)
	require.ErrorContains(t, err, `cannot use retries "x"`)
	require.Equal(t, 5, o.cfg.Requests.Retries)
	require.Equal(t, []string{"http://a:1"}, o.cfg.Sources.Workers)
	require.Equal(t, "kv", o.cfg.Policy.Name)
}

// TestConfigShown prints a configuration that is the same when it is read again, but for its secrets.
func TestConfigShown(t *testing.T) {
	path := configFile(t, "listen: 127.0.0.1:1\noperator-key: sesame\nworker: [http://a:1]\nkv-without: "+policy.TermNames()[0]+"\nmodel-path: ['a: b=/c']\n")
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs([]string{"config", "--config", path, "--retries", "9"})
	require.NoError(t, root.Execute())
	text := out.String()
	require.NotContains(t, text, "sesame")
	require.Contains(t, text, "retries: 9 # flag\n")
	require.Contains(t, text, "listen: 127.0.0.1:1 # "+path+":1\n")
	require.Contains(t, text, "policy: kv # default\n")
	require.Contains(t, text, "# drain-timeout: 30s # default\n") // not the zero that stands for it in the code
	require.Contains(t, text, "# prefill-timeout: --first-byte-timeout # default\n")

	o, f := serveFlags(t, "--config", path, "--retries", "9")
	_, err := configure(f, nil)
	require.NoError(t, err)
	shown, f := serveFlags(t, "--config", configFile(t, text))
	_, err = configure(f, nil)
	require.NoError(t, err)
	require.Equal(t, "***", shown.cfg.Operator.Key)
	shown.cfg.Operator.Key = o.cfg.Operator.Key
	for _, list := range []*[]string{&shown.cfg.Sources.Prefill, &shown.cfg.Sources.Decode, &shown.cfg.Sources.Discover, &shown.cfg.Tokenize.AllowedPaths} {
		require.Empty(t, *list)
		*list = nil
	}
	require.Equal(t, o.cfg, shown.cfg)

	out.Reset()
	root.SetArgs([]string{"config", "--check", "--config", path})
	require.NoError(t, root.Execute())
	require.Empty(t, out.String())
	for _, bad := range [][]string{{"--policy", "best"}, {"--discover", "x:y"}, {"--worker", "a"}, {"--listen", "0.0.0.0:1", "--operator-key", ""}, {"--log-level", "loud"}, {"--log-format", "xml"}, {"--otlp-endpoint", "collector:4317"}} {
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs(append([]string{"config", "--check"}, bad...))
		require.Error(t, root.Execute(), bad)
	}
}

func TestMasked(t *testing.T) {
	for _, tt := range [][3]string{
		{"operator-key", "k", "***"},
		{"operator-key", "", ""},
		{"cluster", "nats://u:p@h:1", "nats://xxxxx@h:1"},
		{"listen", ":1", ":1"},
		{"tls-key", "key.pem", "key.pem"},
		{"cluster", "nats://token@h:1", "nats://xxxxx@h:1"},
		{"worker", "http://u:p@h:1", "http://xxxxx@h:1"},
		{"worker", "http://u:p/s@h:1", "http://xxxxx@h:1"},
		{"prefill", "http://u:p@h:1,8998", "http://xxxxx@h:1,8998"},
		{"discover", "etcd:u:p@h:2379/workers", "xxxxx@h:2379/workers"},
		{"discover", "etcd:h:2379/workers?user=a@b", "etcd:h:2379/workers?user=a@b"},
		{"discover", "etcd:h:2379/workers?ca=a&cert=b&key=/etc/key", "etcd:h:2379/workers?ca=a&cert=b&key=/etc/key"},
		{"client-jwks", "https://h/keys?appid=1&token=a", "https://h/keys?appid=1&token=xxxxx"},
		{"worker", "http://h:1", "http://h:1"},
		{"cluster-token", "t", "***"},
		{"cluster-token", "@/etc/warmpath/token", "@/etc/warmpath/token"},
		{"admin-api-key", "k", "***"},
	} {
		require.Equal(t, tt[2], masked(tt[0], tt[1]))
	}
}

// FuzzParseConfig checks that what is accepted can be looked up: a line for each value, names once.
func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"listen: a", "worker: [a, b]", "a: &x 1\nb: *x", "? [a]\n: b", "<<: {a: b}", "a: |\n  b\n", "%YAML 1.2\n---\na: b", "a: !!int b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseConfig(data)
		if err != nil {
			require.Contains(t, err.Error(), "line ")
			return
		}
		seen, lines := map[string]bool{}, 1+bytes.Count(data, []byte("\n"))+bytes.Count(data, []byte("\r"))
		for _, s := range all {
			require.False(t, seen[s.name])
			seen[s.name] = true
			require.Equal(t, len(s.values), len(s.lines))
			require.True(t, s.list || len(s.values) == 1)
			for _, line := range append(s.lines, s.line) {
				require.Positive(t, line)
				require.LessOrEqual(t, line, lines+1)
			}
		}
	})
}
