package store

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// BenchmarkPull pulls 32 pages of 1 MiB from a store of this process, in the clear and with a
// shared key: the cost of encryption without NIXL. The two share their cores, as two machines do
// not.
func BenchmarkPull(b *testing.B) {
	key, err := tlsconfig.SharedKeyOf(strings.Repeat("k", tlsconfig.MinKey))
	if err != nil {
		b.Fatal(err)
	}
	for name, trust := range map[string]PeerTLS{"clear": {}, "key": sharedKeyTLS(key)} {
		b.Run(name, func(b *testing.B) { benchPull(b, trust) })
	}
}

const benchPulled, benchPage = 32, 1 << 20

func benchPull(b *testing.B, trust PeerTLS) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	tiers, ended := [2]*Store{}, make(chan error, 2)
	for i, bytes := range []int64{512 << 20, 128 << 20} {
		var err error
		if tiers[i], err = New(Config{Bytes: bytes, Listen: "127.0.0.1:0", PeerTLS: trust, Log: slog.New(slog.DiscardHandler)}); err != nil {
			b.Fatal(err)
		}
		go func() { ended <- tiers[i].Run(ctx) }()
	}
	defer func() {
		stop()
		for range tiers {
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
		for _, t := range tiers {
			_ = t.Close()
		}
	}()
	far, here := tiers[0], tiers[1]
	prompts := make([][]proto.Hash, 8) // twice the memory here
	for i := range prompts {
		prompts[i] = chain(uint32(i), benchPulled)
		ns, err := far.pages.namespace("m", benchPage)
		if err != nil {
			b.Fatal(err)
		}
		set, _ := far.pages.reserve(ns, prompts[i], nil, nil, false)
		for page := range prompts[i] {
			copy(set.memory(page), pageBytes(uint64(page)))
		}
		set.commit()
	}
	ns, err := here.pages.namespace("m", benchPage)
	if err != nil {
		b.Fatal(err)
	}
	here.SetPeers([]Peer{{"far", far.Endpoint()}})
	for end := time.Now().Add(patience); len(here.peers.connected()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("no peer")
		}
	}
	peer := here.peers.connected()[0]
	b.SetBytes(benchPulled * benchPage)
	for n := 0; b.Loop(); n++ {
		hashes := prompts[n%len(prompts)]
		here.peers.pull(peer, ns, hashes, nil, false)
		here.peers.incoming.await(ns, hashes, patience)
	}
	b.StopTimer()
	if s := here.Stats(); s.Pulled < int64(b.N*benchPulled)/2 || s.PullFailures > 0 {
		b.Errorf("%d pages of %d were pulled, %d pulls failed", s.Pulled, b.N*benchPulled, s.PullFailures)
	}
}
