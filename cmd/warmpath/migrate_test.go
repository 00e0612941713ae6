package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestServeTakesSGLangRoutersLines: command lines of sglang-router, of its documents and of older versions,
// are those of warmpath serve that do the same.
func TestServeTakesSGLangRoutersLines(t *testing.T) {
	folder := t.TempDir()
	tests := []struct {
		line, want string
		notes      []string // beginnings
	}{
		{
			"--worker-urls http://a:1 http://b:2", "--worker http://a:1 --worker http://b:2 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000", nil,
		},
		{
			"--worker-urls=http://a:1 --host 127.0.0.1 --port=8000 --policy round_robin --prometheus-port 9090",
			"--worker http://a:1 --policy round-robin --listen 127.0.0.1:8000 --operator-listen 127.0.0.1:9090", nil,
		},
		{
			"--pd-disaggregation --prefill http://a:1 8998 --prefill http://b:2 none --prefill http://c:3 --decode http://d:4 --decode http://e:5 --policy cache_aware",
			"--prefill http://a:1,8998 --prefill http://b:2 --prefill http://c:3 --decode http://d:4 --decode http://e:5 --policy kv --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000", nil,
		},
		{
			"--prefill http://a:1 8998 --decode http://d:4 --listen :9 --operator-key @k", "--prefill http://a:1,8998 --decode http://d:4 --listen :9 --operator-key @k", nil,
		},
		{
			"--worker-urls http://a:1 --cache-threshold 0.5 --balance-abs-threshold 32 --max-concurrent-requests -1 --queue-size 0 --queue-timeout-secs 5 --dp-aware",
			"--worker http://a:1 --queue-max -1 --queue-timeout 5s --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000",
			[]string{"--balance-abs-threshold: ", "--cache-threshold: ", "--dp-aware: "},
		},
		{
			"--worker-urls http://a:1 --policy manual --host :: --prometheus-host 0.0.0.0", "--worker http://a:1 --policy kv --session-affinity --listen [::]:30000 --operator-listen 127.0.0.1:29000",
			[]string{"--policy manual: ", "--prometheus-host: "},
		},
		{
			"--worker-urls https://a:1 --request-timeout-secs 60 --disable-retries --tls-cert-path c --tls-key-path k --client-cert-path d --client-key-path l --ca-cert-paths ca --max-payload-size 9",
			"--worker https://a:1 --first-byte-timeout 60s --retries 0 --tls-cert c --tls-key k --worker-cert d --worker-key l --worker-ca ca --max-body-bytes 9 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000", nil,
		},
		{
			"--worker-urls http://a:1 --model-path some/hub-name --tokenizer-path " + folder, "--worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --model-path " + folder, nil,
		},
		{
			"--worker-urls http://a:1 --model-path some/hub-name", "--worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --model-path some/hub-name", nil,
		},
		{
			"--worker-urls http://a:1 --model-path a/b --tokenizer-path some/tokenizer@v1", "--worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --model-path some/tokenizer@v1", nil,
		},
		{
			"--worker-urls http://a:1 --model-path ../no/folder", "--worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000", []string{"--model-path: "},
		},
		{
			"--worker-urls http://a:1 --model-path gpt2", "--worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000", []string{"--model-path: "},
		},
		{
			"--worker-urls http://a:1 --enable-trace --otlp-traces-endpoint otel:4317", "--worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --otlp-endpoint http://otel:4318",
			[]string{"--otlp-traces-endpoint: "},
		},
		{
			"--worker-urls http://a:1 --enable-trace --otlp-traces-endpoint grpc://otel:4317/v1", "--worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --otlp-endpoint http://otel:4318",
			[]string{"--otlp-traces-endpoint: spans go by OTLP over HTTP, to http://otel:4318"},
		},
		{
			"--enable-trace --otlp-traces-endpoint otel", "--listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --otlp-endpoint http://otel:4318", []string{"--otlp-traces-endpoint: "},
		},
		{
			"--enable-trace --otlp-traces-endpoint https://user:word@[::1]:9", "--listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --otlp-endpoint http://[::1]:4318",
			[]string{"--otlp-traces-endpoint: spans go by OTLP over HTTP, to http://[::1]:4318"},
		},
		{
			"--worker-urls http://a:1 --cors-allowed-origins https://x https://y:8 --port 8",
			"--worker http://a:1 --cors-allowed-origins https://x --cors-allowed-origins https://y:8 --listen 0.0.0.0:8 --operator-listen 127.0.0.1:29000", nil,
		},
		{
			"--worker http://a:1 --cors-allowed-origins https://x https://y --port 8",
			"--worker http://a:1 --cors-allowed-origins https://x --cors-allowed-origins https://y --listen 0.0.0.0:8 --operator-listen 127.0.0.1:29000", nil,
		},
		{
			"--service-discovery --selector app=a role=b --service-discovery-namespace prod --service-discovery-port 8000",
			"--listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000 --discover kubernetes:prod/?selector=app%3Da%2Crole%3Db",
			[]string{"--service-discovery-port: ", "--service-discovery: workers are the endpoints of the services"},
		},
		{
			"--pd-disaggregation --service-discovery --prefill-selector app=p --decode-selector app=d --port 9",
			"--listen 0.0.0.0:9 --operator-listen 127.0.0.1:29000 --discover kubernetes:/?role=prefill&selector=app%3Dp --discover kubernetes:/?role=decode&selector=app%3Dd",
			[]string{"--service-discovery: without", "--service-discovery: workers"},
		},
		{"--worker http://a:1 --cors-allowed-origins https://x", "--worker http://a:1 --cors-allowed-origins https://x", nil},
		// Given twice, as argparse reads it.
		{
			"--worker-urls http://a:1 http://b:2 --port 8 --worker-urls http://c:3 --port 9", "--worker http://c:3 --listen 0.0.0.0:9 --operator-listen 127.0.0.1:29000", nil,
		},
		{
			"--worker-urls http://a:1 --disable-retries --retry-max-retries 5", "--worker http://a:1 --retries 0 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000", nil,
		},
		{
			"--retry-max-retries 5 --retry-max-retries 6 --worker http://a:1", "--retries 6 --worker http://a:1 --listen 0.0.0.0:30000 --operator-listen 127.0.0.1:29000", nil,
		},
		// What is warmpath's stays.
		{"--worker http://a:1 --policy kv", "--worker http://a:1 --policy kv", nil},
		{"--worker http://a:1 --policy random --log-level debug", "--worker http://a:1 --policy random --log-level debug", nil},
		{"--prefill http://a:1,8998 --decode http://d:4", "--prefill http://a:1,8998 --decode http://d:4", nil},
		{"--prefill=http://a:1 --decode http://d:4", "--prefill=http://a:1 --decode http://d:4", nil},
		{"--model-path /m --worker http://a:1", "--model-path /m --worker http://a:1", nil},
		{"", "", nil},
	}
	for _, tt := range tests {
		var said bytes.Buffer
		got, err := adopt(append([]string{"serve"}, strings.Fields(tt.line)...), &said)
		require.NoError(t, err, tt.line)
		assert.Equal(t, strings.Fields("serve "+tt.want), got, tt.line)
		notes := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
		if assert.Len(t, notes, max(len(tt.notes), 1), tt.line) {
			for i, note := range tt.notes {
				assert.Truef(t, strings.HasPrefix(notes[i], "warmpath: "+note), "%s: %s", tt.line, notes[i])
			}
		}
	}
	other := []string{"workers", "--worker-urls", "x"}
	got, err := adopt(other, nil)
	require.NoError(t, err)
	assert.Equal(t, other, got, "serve and config alone")
}

// TestEverySGLangRouterFlag: each flag is translated to flags that serve has, or said to do nothing, or
// refused with what to do instead.
func TestEverySGLangRouterFlag(t *testing.T) {
	silent := map[string]bool{ // what comes by itself, or only beside another flag
		"pd-disaggregation": true, "selector": true, "prefill-selector": true, "decode-selector": true,
		"service-discovery-namespace": true, "otlp-traces-endpoint": true, "max-concurrent-requests": true, "backend": true,
	}
	for name, f := range sglangFlags {
		line := []string{"--" + name}
		if f.values != 0 {
			line = append(line, map[string]string{
				"policy": "cache_aware", "prefill": "http://a:1", "backend": "sglang", "max-concurrent-requests": "-1", "prometheus-host": "127.0.0.1", "history-backend": "memory",
			}[name])
			if line[1] == "" {
				line[1] = "7"
			}
		}
		if name == "service-discovery" {
			line = append(line, "--selector", "app=a")
		}
		bare, err := migrate(nil)
		require.NoError(t, err)
		m, err := migrate(line)
		if f.refuse != "" {
			require.ErrorContains(t, err, "--"+name, name)
			require.ErrorContains(t, err, f.refuse, name)
			continue
		}
		require.NoError(t, err, name)
		require.NoError(t, newServeCommand().Flags().Parse(m.args), "%s: %s", name, m.args)
		if name != "enable-trace" && name != "prometheus-host" && !silent[name] {
			assert.NotEqual(t, append(bare.args, bare.notes...), append(m.args, m.notes...), "%s has come to nothing", name)
		}
	}
}

func TestSGLangRouterLinesThatAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"--worker-urls http://a:1 --api-key secret":                 "--worker-api-key-file",
		"--service-discovery":                                       "it needs --selector",
		"--worker-urls grpc://a:1":                                  "without --grpc-mode",
		"--pd-disaggregation --prefill grpc://a:1 8998":             "without --grpc-mode",
		"--worker-urls http://a:1 --backend openai":                 "SGLang's",
		"--worker-urls http://a:1 --history-backend redis":          "not in a database",
		"--worker-urls http://a:1 --ca-cert-paths a b":              "one file",
		"--worker-urls http://a:1 --port":                           "--port of sglang-router wants a value",
		"--worker-urls http://a:1 --dp-aware=true":                  "takes no value",
		"--worker-urls http://a:1 --listen 127.0.0.1:8 --port 9":    "--listen",
		"--worker-urls http://a:1 --listen=127.0.0.1:8 --host ::":   "--listen",
		"--worker-urls http://a:1 --api-key x --mcp-config-path /y": "--mcp-config-path",
	} {
		_, err := adopt(append([]string{"serve"}, strings.Fields(line)...), new(bytes.Buffer))
		require.ErrorContains(t, err, want, line)
		assert.NotContains(t, err.Error(), "secret", "keys are not shown")
	}
}

// TestMigrateWithoutDashes says where their command line stands.
func TestMigrateWithoutDashes(t *testing.T) {
	_, err := warmpath(t, "", "migrate", "--worker-urls", "http://a:1")
	require.ErrorContains(t, err, "behind --")
}

// TestMigrate: the command line that it prints is one, and the file says the same.
func TestMigrate(t *testing.T) {
	line := []string{"--", "python3", "-m", "sglang_router.launch_router", "--worker-urls", "http://a:1", "http://b:2", "--port", "8000", "--queue-timeout-secs", "5", "--dp-aware", "--log-dir", "it's"}
	run := func(args ...string) string {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs(append([]string{"migrate"}, args...))
		require.NoError(t, root.Execute())
		return out.String()
	}
	text := run(line...)
	assert.Contains(t, text, "\nwarmpath serve --worker http://a:1 --worker http://b:2 --queue-timeout 5s --listen 0.0.0.0:8000 --operator-listen 127.0.0.1:29000\n")
	assert.Contains(t, text, "# --dp-aware: ")

	file := filepath.Join(t.TempDir(), "warmpath.yaml")
	require.NoError(t, os.WriteFile(file, []byte(run(append([]string{"--file"}, line...)...)), 0o600))
	flags := newServeCommand().Flags()
	require.NoError(t, flags.Parse([]string{"--config", file}))
	_, err := configure(flags, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"http://a:1", "http://b:2"}, flags.Lookup("worker").Value.(pflag.SliceValue).GetSlice())
	assert.Equal(t, "5s", flags.Lookup("queue-timeout").Value.String())

	for _, args := range [][]string{
		{"migrate"},
		{"migrate", "--worker-urls", "x"},
		{"migrate", "a", "--", "b"},
		{"migrate", "--", "python3", "-m", "sglang_router.launch_server", "--model", "m", "--dp-size", "4"},
		{"migrate", "--", "--worker-urls", "http://a:1", "--no-such-flag", "4"},
	} {
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(new(bytes.Buffer))
		root.SetErr(new(bytes.Buffer))
		require.Error(t, root.Execute())
	}
	assert.NotContains(t, run("--file", "--", "--model-path", "x\nretries: 7", "--prometheus-host", "a\u2028retries: 7"), "\nretries", "a note is one line")
	assert.Equal(t, `'it'\''s' a-b`, quoted("it's")+" "+quoted("a-b"))
}
