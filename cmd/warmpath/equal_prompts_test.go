package main

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// computing asks for new prompts, each by six clients at one instant spread over the routers, and
// returns by how many workers one is computed in the mean. Rounds in which an answer between
// routers was late do not count: a busy machine is no part of the test.
func computing(t *testing.T, all []*router.Router, seed uint64) float64 {
	t.Helper()
	const rounds, clients = 8, 6
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	late := func() (n uint64) {
		for _, router := range all {
			if st := router.Status().Replicas; st != nil {
				n += st.Late + st.Alone + st.Refused
			}
		}
		return n
	}
	rng, sum, counted := rand.New(rand.NewPCG(seed, 1)), 0, 0
	awaitThat(t, func() bool {
		ids, before := randomIDs(rng, 3000), late()
		answers, start := make([]asked, clients), make(chan struct{})
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				<-start
				answers[i] = ask(t.Context(), client, "http://"+all[i%len(all)].Addr(), ids, 4)
			})
		}
		close(start)
		wg.Wait()
		workers := map[string]bool{}
		for _, a := range answers {
			require.NoError(t, a.err)
			require.Equal(t, http.StatusOK, a.status)
			workers[a.worker] = true
		}
		if late() == before {
			sum, counted = sum+len(workers), counted+1
		}
		return counted == rounds
	}, func() string {
		return fmt.Sprintf("answers between routers are late; %d rounds of %d", counted, rounds)
	})
	return float64(sum) / float64(rounds)
}

// TestEqualPromptsOfOneInstant: several routers let no more workers compute a new prompt that comes
// to all of them at one instant than one router does, and neither does the next router that chooses
// for all. Without knowing of each other's prompts they used 4.7 of 6.
func TestEqualPromptsOfOneInstant(t *testing.T) {
	t.Parallel()
	cfg := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: "kv"}, Version: version, Log: slog.New(slog.DiscardHandler)}
	unhurried(&cfg)
	single, _ := launch(t, 1, 6, sim.Config{Log: cfg.Log}, cfg)
	one := computing(t, single.all, 1)
	several, stop := launch(t, 3, 6, sim.Config{Log: cfg.Log}, cfg)
	three := computing(t, several.all, 2)
	stop[0]()
	awaitThat(t, func() bool {
		a, b := several.all[1].Status().Replicas, several.all[2].Status().Replicas
		return len(a.Peers) == 1 && len(b.Peers) == 1 && a.Leader == b.Leader
	}, func() string { return "nobody else chooses" })
	two := computing(t, several.all[1:], 3)
	t.Logf("one router: %.2f of 6 workers, three: %.2f, two of them after the first has ended: %.2f", one, three, two)
	require.LessOrEqual(t, three, one+1)
	require.LessOrEqual(t, two, one+1)
}
