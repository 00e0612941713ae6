package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane"
)

// TestHalfTheWorkersLosePower: twice, under short and long requests.
func TestHalfTheWorkersLosePower(t *testing.T) {
	cfg := pairWorker()
	cfg.TimeScale = 20
	p := poisonous{startPairs(t, clusterSize{workers: 4}, cfg, dataplane.Config{})}
	stop := p.innocents(t.Context(), 12)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"text":"long request %d","sampling_params":{"max_new_tokens":6000,"ignore_eos":true}}`, i)
			g := p.send(t.Context(), "/generate", body)
			assert.Equal(t, http.StatusOK, g.status, g.text)
		})
	}
	time.Sleep(3 * time.Second)
	p.sims[0].Faults().Restart(500 * time.Millisecond)
	p.sims[1].Faults().Restart(500 * time.Millisecond)
	wg.Wait()
	answered, failed := stop()
	assert.Empty(t, failed, "of %d", answered)
	assert.Empty(t, p.leftovers())
}

// TestTheOnlyWorkerIsRestartedTwice under the same requests.
func TestTheOnlyWorkerIsRestartedTwice(t *testing.T) {
	cfg := pairWorker()
	cfg.TimeScale = 20
	p := poisonous{startPairs(t, clusterSize{workers: 1}, cfg, dataplane.Config{})}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"text":"long request %d","sampling_params":{"max_new_tokens":3000,"ignore_eos":true}}`, i)
			for try := 0; ; try++ {
				g := p.send(t.Context(), "/generate", body)
				if g.status == http.StatusOK {
					return
				}
				if g.status == http.StatusBadRequest || try > 50 {
					assert.Fail(t, "refused", "%d %s", try, g.text)
					return
				}
				time.Sleep(300 * time.Millisecond)
			}
		})
	}
	for range 2 {
		time.Sleep(2500 * time.Millisecond)
		p.sims[0].Faults().Restart(500 * time.Millisecond)
	}
	wg.Wait()
}

// TestClientsLeaveWhileTheyWaitForATurn and nothing stays.
func TestClientsLeaveWhileTheyWaitForATurn(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 3}, "POISON", 300*time.Millisecond)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i*25)*time.Millisecond)
			defer cancel()
			text := fmt.Sprintf("innocent %d", i%7)
			if i%10 == 0 {
				text = "POISON"
			}
			p.send(ctx, "/generate", fmt.Sprintf(`{"text":%q,"stream":%v,"sampling_params":{"max_new_tokens":3000,"ignore_eos":true}}`, text, i%3 == 0))
		})
	}
	wg.Wait()
	awaitThat(t, func() bool { return p.leftovers() == "" }, p.leftovers)
	for i := range 7 {
		g := p.send(t.Context(), "/generate", fmt.Sprintf(`{"text":"innocent %d","sampling_params":{"max_new_tokens":3}}`, i))
		assert.Equal(t, http.StatusOK, g.status, g.text)
	}
	assert.LessOrEqual(t, p.deaths(), 2)
	t.Log("cases", p.metric("warmpath_quarantine_cases"), "deaths", p.deaths(), "caught", p.metric("warmpath_quarantine_caught_total"))
}
