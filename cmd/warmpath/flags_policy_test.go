package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router"
)

func TestReplicaFlag(t *testing.T) {
	for text, want := range map[string][2]int{"1/1": {0, 1}, "1/4": {0, 4}, "4/4": {3, 4}} {
		var cfg router.Config
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		policyFlags(f, &cfg)
		require.NoError(t, f.Parse([]string{"--replica", text}))
		assert.Equal(t, want, [2]int{cfg.Policy.Options.Replica, cfg.Policy.Options.Replicas})
		assert.Equal(t, text, f.Lookup("replica").Value.String())
	}
	for _, text := range []string{"", "2", "0/2", "3/2", "a/b", "1/2/3", "-1/2"} {
		var cfg router.Config
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.SetOutput(nil)
		policyFlags(f, &cfg)
		require.Error(t, f.Parse([]string{"--replica", text}), text)
	}
}
