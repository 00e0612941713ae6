package main

import (
	"errors"
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/node"
	kvtier "github.com/warmpath/warmpath/dataplane/tier"
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
		{size: "much", warm: "0"}, {size: "1MiB", warm: "0"}, {size: "8MiB", warm: "fast"}, {size: "8MiB", warm: "0", cfg: kvtier.Config{Policy: "fifo"}},
	} {
		o.noNIXL = true
		var cfg node.Config
		if tier, err := o.open(&cfg, nil); err == nil {
			tier.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}
