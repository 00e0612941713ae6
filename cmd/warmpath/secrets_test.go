package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestSecretsInFiles: every flag that takes a secret takes it from a file too, and a reload reads
// the file again.
func TestSecretsInFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	replace(t, file, "first\n")
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveOptions).flags(f)
	require.NoError(t, f.Parse([]string{"--operator-key", "@" + file, "--cluster-token", "@" + file}))
	for _, want := range []string{"first", "second"} {
		replace(t, file, want+"\n")
		o, err := again(f)
		require.NoError(t, err)
		require.Equal(t, want, o.cfg.Operator.Key)
		require.Equal(t, want, o.cluster.cfg.Token)
	}
	for _, bad := range []string{" \n", strings.Repeat("x", maxSecret+1)} {
		replace(t, file, bad)
		_, err := again(f)
		require.ErrorIs(t, err, errSecret)
		require.ErrorContains(t, err, file)
	}
	require.NoError(t, os.Remove(file))
	_, err := again(f)
	require.ErrorContains(t, err, "no such file")

	settings := filepath.Join(t.TempDir(), "warmpath.yaml")
	replace(t, file, "third")
	replace(t, settings, "operator-key: '@"+file+"'\n")
	f = pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveOptions).flags(f)
	require.NoError(t, f.Parse([]string{"--config", settings}))
	o, err := again(f)
	require.NoError(t, err)
	require.Equal(t, "third", o.cfg.Operator.Key)
	t.Setenv("WARMPATH_OPERATOR_KEY", "@"+file+".none")
	_, err = again(f)
	require.ErrorIs(t, err, errSecret)
}

// TestSecretsOnTheCommandLine: a secret that `ps` shows is warned of once, with what to do.
func TestSecretsOnTheCommandLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	replace(t, file, "secret\n")
	t.Setenv("WARMPATH_CLUSTER_TOKEN", "hidden")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"config", "--operator-key", "secret"}, []string{"--operator-key @FILE, or WARMPATH_OPERATOR_KEY"}},
		{[]string{"config", "--cluster-token=secret", "--operator-key", "k"}, []string{"--cluster-token @FILE", "--operator-key @FILE"}},
		{[]string{"config", "--cluster", "nats://a:4222,nats://user:pass@b:4222"}, []string{"use --cluster-token @FILE, --cluster-creds"}},
		{[]string{"config", "--operator-key", "@" + file, "--cluster", "nats://a:4222", "--cluster-nkey", file, "--cluster-creds", file}, nil},
		{[]string{"drain", "gpu1", "--operator-key", "k"}, []string{"--operator-key"}},
		{[]string{"explain", "--operator-key", "k"}, []string{"--operator-key"}},
		{[]string{"node", "--operator-key", "k"}, []string{"--operator-key"}},
		{[]string{"sim", "--api-key", "k", "--admin-api-key", "k"}, []string{"--admin-api-key", "--api-key"}},
	} {
		root := newRoot()
		var said bytes.Buffer
		root.SetErr(&said)
		root.SetOut(new(bytes.Buffer))
		root.SetArgs(tt.args)
		ctx, stop := context.WithCancel(t.Context())
		stop() // what runs for long ends at once
		_ = root.ExecuteContext(ctx)
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if tt.want == nil {
			require.NotContains(t, said.String(), "(ps)", tt.args)
			continue
		}
		require.Len(t, lines, len(tt.want), "%q: %s", tt.args, said.String())
		for i, want := range tt.want {
			require.Contains(t, lines[i], want)
			require.Contains(t, lines[i], "(ps)")
		}
	}
	t.Setenv("WARMPATH_OPERATOR_KEY", "@"+file+".none")
	root := newRoot()
	root.SetArgs([]string{"explain", "--router", "http://127.0.0.1:1"})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "WARMPATH_OPERATOR_KEY")
}
