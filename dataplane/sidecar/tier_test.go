package sidecar

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

func TestTierPeers(t *testing.T) {
	v := &cluster.View{Nodes: []cluster.Node{
		{Name: "self", Tier: &cluster.Tier{Endpoint: "10.0.0.1:7"}},
		{Name: "other", Tier: &cluster.Tier{Endpoint: "10.0.0.2:7"}},
		{Name: "no tier"},
		{Name: "no endpoint", Tier: &cluster.Tier{}},
	}}
	named := []store.Peer{{Name: "10.0.0.9:7", Endpoint: "10.0.0.9:7"}}
	assert.Equal(t, []store.Peer{named[0], {Name: "other", Endpoint: "10.0.0.2:7"}}, tierPeers(named, v, "10.0.0.1:7"))
}

// openTier makes the tier of a sidecar and frees it with the test.
func openTier(t *testing.T, c TierConfig) error {
	t.Helper()
	c.NoNIXL = true
	cfg := Config{Tier: c, Log: slog.New(slog.DiscardHandler)}
	require.NoError(t, cfg.setDefaults())
	tier, err := newTier(&cfg)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, tier.store.Close()) })
	}
	return err
}

func TestTierSettingsRefused(t *testing.T) {
	small := func(c store.Config) store.Config { c.Bytes = 8 << 20; return c }
	for name, c := range map[string]TierConfig{
		"little memory":        {Config: store.Config{Bytes: 1 << 20}},
		"exposed":              {Config: small(store.Config{Listen: "0.0.0.0:0"})},
		"missing key":          {Config: small(store.Config{}), KeyFile: "/no/such/file"},
		"no authority":         {Config: small(store.Config{}), TLS: tlsconfig.ServerFiles{Cert: "c", Key: "k"}},
		"missing certificates": {Config: small(store.Config{}), TLS: tlsconfig.ServerFiles{Cert: "/no/c", Key: "/no/k", ClientCA: "/no/ca"}},
		"key and certificate":  {Config: small(store.Config{}), KeyFile: "k", TLS: tlsconfig.ServerFiles{Cert: "c"}},
	} {
		assert.Error(t, openTier(t, c), name)
	}
}

// A cluster's token that is long enough authenticates its tiers, unless the operator sets a key.
func TestTierTrustsItsCluster(t *testing.T) {
	for token, want := range map[string]bool{"": false, "short": false, "a token of thirty-two characters": true} {
		err := openTier(t, TierConfig{Config: store.Config{Bytes: 8 << 20, Listen: "0.0.0.0:0"}, Token: token})
		assert.Equal(t, want, err == nil, "with the token %q a tier for other machines: %v", token, err)
	}
}
