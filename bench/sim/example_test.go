package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/warmpath/warmpath/bench/sim"
)

// The second request finds the first one's pages: 32 of its 40 tokens are whole
// pages of 16.
func Example() {
	w, err := sim.New(sim.Config{TimeScale: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	defer http.DefaultClient.CloseIdleConnections()

	ids := make([]int, 40)
	body, _ := json.Marshal(map[string]any{
		"input_ids":       ids,
		"sampling_params": map[string]any{"max_new_tokens": 1},
	})
	for range 2 {
		resp, err := http.Post(w.URL()+"/generate", "application/json", bytes.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		var answer struct {
			Meta struct {
				Prompt int `json:"prompt_tokens"`
				Cached int `json:"cached_tokens"`
			} `json:"meta_info"`
		}
		_ = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		fmt.Println(answer.Meta.Cached, "of", answer.Meta.Prompt)
	}
	// Output:
	// 0 of 40
	// 32 of 40
}
