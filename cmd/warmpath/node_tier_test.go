package main

import (
	"errors"
	"log/slog"
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/dataplane/cluster"
	kvtier "github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

func TestParseBytes(t *testing.T) {
	tests := map[string]int64{"8GiB": 8 << 30, "512MiB": 512 << 20, "1.5KiB": 1536, "2 TB": 2e12, "4096": 4096, "7B": 7, "1kB": 1000}
	for text, want := range tests {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1GiB", "0", "8 Gigs", "1e30", "NaN", "Inf", "9999999TiB"} {
		if got, err := parseBytes(text); !errors.Is(err, errSize) {
			t.Errorf("parseBytes(%q) = %d, %v, want errSize", text, got, err)
		}
	}
}

func TestTierPeers(t *testing.T) {
	v := &cluster.View{Nodes: []cluster.Node{
		{Name: "self", Tier: &cluster.Tier{Endpoint: "10.0.0.1:7"}},
		{Name: "other", Tier: &cluster.Tier{Endpoint: "10.0.0.2:7"}},
		{Name: "no tier"},
		{Name: "no endpoint", Tier: &cluster.Tier{}},
	}}
	named := []kvtier.Peer{{Name: "10.0.0.9:7", Endpoint: "10.0.0.9:7"}}
	want := []kvtier.Peer{named[0], {Name: "other", Endpoint: "10.0.0.2:7"}}
	if got := tierPeers(named, v, "10.0.0.1:7"); !reflect.DeepEqual(got, want) {
		t.Errorf("tierPeers = %v, want %v", got, want)
	}
}

func TestTierOptionsRefuse(t *testing.T) {
	for _, o := range []tierOptions{
		{size: "much", warm: "0"},
		{size: "1MiB", warm: "0"},
		{size: "1000TiB", warm: "0"}, // more than the machine has: the kernel would end the sidecar once it is full
		{size: "8MiB", warm: "fast"},
		{size: "8MiB", warm: "0", cfg: kvtier.Config{Eviction: "fifo"}},
		{size: "8MiB", warm: "0", cfg: kvtier.Config{Listen: "0.0.0.0:0"}},
		{size: "8MiB", warm: "0", key: "/no/such/file"},
		{size: "8MiB", warm: "0", server: tlsconfig.ServerFiles{Cert: "c", Key: "k"}},
		{size: "8MiB", warm: "0", server: tlsconfig.ServerFiles{Cert: "/no/c", Key: "/no/k", ClientCA: "/no/ca"}},
		{size: "8MiB", warm: "0", key: "k", server: tlsconfig.ServerFiles{Cert: "c"}},
	} {
		o.noNIXL = true
		var cfg sidecar.Config
		if tier, err := o.open(&cfg, "", slog.New(slog.DiscardHandler)); err == nil {
			tier.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}

// A cluster's token that is long enough is what its tiers know each other by, where the operator gave them nothing else.
func TestTierTrustsItsCluster(t *testing.T) {
	for token, want := range map[string]bool{"": false, "short": false, "a token of thirty-two characters": true} {
		o := tierOptions{size: "8MiB", warm: "0", noNIXL: true, cfg: kvtier.Config{Listen: "0.0.0.0:0"}}
		var cfg sidecar.Config
		tier, err := o.open(&cfg, token, slog.New(slog.DiscardHandler))
		if (err == nil) != want {
			t.Errorf("with the token %q a tier for other machines: %v, want it %v", token, err, want)
		}
		if err == nil {
			tier.Close()
		}
	}
}
