package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/router"
)

// TestAPoisonOfImpatientClients: clients leave before the engine's death is known and send the
// request again. SGLang's HTTP process outlives its scheduler by 5 s and more, so short time-outs do.
func TestAPoisonOfImpatientClients(t *testing.T) {
	p := poisonous{startPairs(t, clusterSize{workers: 5}, pairWorker(), router.Config{})}
	for try := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		var got told
		done := make(chan struct{})
		go func() {
			defer close(done)
			got = p.send(ctx, "/generate", fmt.Sprintf(`{"rid":"p%d","text":"POISON","sampling_params":{"max_new_tokens":60000,"ignore_eos":true}}`, try))
		}()
		at := -1
		awaitThat(t, func() bool {
			for i, w := range p.sims {
				if w.Work().Running > 0 {
					at = i
					return true
				}
			}
			select {
			case <-done:
				return true
			default:
				return false
			}
		}, func() string { return "it runs somewhere" })
		if at < 0 {
			t.Log("try", try, got)
			cancel()
			<-done
			return
		}
		p.sims[at].Faults().Hang() // a scheduler that has died hears no abort
		cancel()
		<-done
		p.sims[at].Faults().Crash()
		awaitThat(t, func() bool {
			for _, w := range p.router.Status().Workers {
				if strings.Contains(w.ID, strings.TrimPrefix(p.sims[at].URL(), "http://")) && w.State == "dead" {
					return true
				}
			}
			return false
		}, func() string { return fmt.Sprintf("%+v", p.router.Status().Workers) })
		assert.Less(t, try, 2, "ended another engine")
	}
}
