package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// Whatever a client asks, a pair answers it like one worker: text, token ids and log probabilities, as JSON and as a stream.
func TestPairsAnswerLikeOneWorker(t *testing.T) {
	all := asks(t, pairQuestions, 7)
	cfg := pairWorker()
	cfg.DPSize = 2 // TestMixedClusterAnswers has one
	c := startPairs(t, clusterSize{prefill: 2, decode: 2}, cfg, router.Config{})
	for i := range all {
		for _, stream := range []bool{false, true} {
			_, err := c.send(t.Context(), &all[i], stream)
			assert.NoError(t, err)
		}
	}
	c.settled(t)
}

// A mixed cluster answers with pairs and with whole workers.
func TestMixedClusterAnswers(t *testing.T) {
	all := asks(t, 40, 23)
	c := startPairs(t, clusterSize{prefill: 1, decode: 1, workers: 1}, pairWorker(), router.Config{Pairs: config.Pairs{MinUncached: 64}})
	for i := range all {
		_, err := c.send(t.Context(), &all[i], i%2 == 0)
		assert.NoError(t, err)
	}
	c.settled(t)
}

func TestClusterSizesThatCannotWork(t *testing.T) {
	for _, bad := range []clusterSize{{}, {prefill: 1}, {decode: 2, workers: 1}, {workers: -1}} {
		assert.Error(t, bad.check(), "%+v", bad)
	}
	for _, good := range []clusterSize{{workers: 1}, {prefill: 1, decode: 3}, {prefill: 1, decode: 1, workers: 1}} {
		assert.NoError(t, good.check(), "%+v", good)
	}
}

// Two processes' worth of workers, started as an operator would, find each other.
func TestSimRunsBothHalvesOfAPair(t *testing.T) {
	start := func(args ...string) (url string) {
		ctx, stop := context.WithCancel(context.Background())
		out, in := io.Pipe()
		cmd := newSimCommand()
		cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0", "--time-scale", "100"}, args...))
		cmd.SetOut(in)
		done := make(chan error, 1)
		go func() { done <- cmd.ExecuteContext(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-done)
		})
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan(), "the worker did not say where it is")
		return lines.Text()
	}
	prefill := start("--mode", "prefill")
	decode := start("--mode", "decode", "--decode-cache")
	url, rest, ok := strings.Cut(prefill, " events ")
	require.True(t, ok, prefill)
	_, port, ok := strings.Cut(rest, " bootstrap ")
	require.True(t, ok, prefill)
	body := `{"text":"hello there","sampling_params":{"max_new_tokens":4,"ignore_eos":true},"bootstrap_host":"127.0.0.1","bootstrap_room":7,"bootstrap_port":` + port + `}`
	var wg sync.WaitGroup
	for _, to := range []string{url, strings.Fields(decode)[0]} {
		wg.Go(func() {
			resp, err := http.Post(to+"/generate", "application/json", strings.NewReader(body))
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
}
