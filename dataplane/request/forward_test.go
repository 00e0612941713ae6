package request_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBodiesPassWithAnIDSplicedIn(t *testing.T) { overBoth(t, testBodiesPassWithAnIDSplicedIn) }

func testBodiesPassWithAnIDSplicedIn(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	resp, got := h.Post("/generate", idsBody)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, idsReply, got)
	assert.Equal(t, w.URL, resp.Header.Get("X-Warmpath-Worker"))
	assert.Equal(t, "0/2", resp.Header.Get("X-Warmpath-Overlap"))
	assert.Regexp(t, regexp.MustCompile(`^`+regexp.QuoteMeta(idsBody[:len(idsBody)-1])+`,"rid":"wp-[0-9a-f]{24}"\}$`), w.LastBody())

	own := `{ "rid": "0a1b2c3d4e5f40718293a4b5c6d7e8f9", "text": "héllo", "stream": false }`
	h.Post("/generate", own)
	assert.Equal(t, own, w.LastBody(), "a client's own UUID is left alone, and so is every byte")
}

func TestUsageIsCounted(t *testing.T) { overBoth(t, testUsageIsCounted) }

func testUsageIsCounted(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	h.Post("/generate", idsBody)
	h.AwaitEnded(1)
	st := h.Admin.Status()
	assert.EqualValues(t, 9, st.PromptTokens)
	assert.EqualValues(t, 8, st.HitTokens)
	assert.InDelta(t, 8.0/9, st.HitRate, 1e-9)
	assert.Zero(t, st.Compared, "a worker without events promises nothing")
	assert.EqualValues(t, 1, st.Approx.Compared)
}

func TestFirstSSEByteIsForwardedAtOnce(t *testing.T) { overBoth(t, testFirstSSEByteIsForwardedAtOnce) }

func testFirstSSEByteIsForwardedAtOnce(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	seen := make(chan struct{})
	w.On("/v1/chat/completions", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: one\n\n")
		rw.(http.Flusher).Flush()
		<-seen // the second event is sent only once the client has the first
		_, _ = io.WriteString(rw, "data: two\n\ndata: [DONE]\n\n")
	})
	h := start(t, []*fakeWorker{w})
	resp, err := h.Client.Post(h.Base+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"tiny","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "data: one\n", line)
	close(seen)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "\ndata: two\n\ndata: [DONE]\n\n", string(rest))
}

// Each failure of a worker before its answer begins leads to the other worker's answer, unseen
// by the client.
func TestFailuresBeforeTheAnswerGoElsewhere(t *testing.T) {
	t.Parallel()
	overBoth(t, testFailuresBeforeTheAnswerGoElsewhere)
}

func testFailuresBeforeTheAnswerGoElsewhere(t *testing.T) {
	t.Helper()
	tests := []struct {
		name string
		fail func(w *fakeWorker)
		body string
	}{
		{"resets the connection", func(w *fakeWorker) { w.Dies("/generate", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }) }, idsBody},
		{"dies after the header of a stream", func(w *fakeWorker) { w.Breaks("/generate", "") }, `{"input_ids":[1,2,3],"stream":true}`},
		{"answers 503", func(w *fakeWorker) {
			w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
		}, idsBody},
		{"refuses connections", func(w *fakeWorker) { _ = w.Close() }, idsBody},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
			good.Answers("/generate", idsReply)
			h := start(t, []*fakeWorker{bad, good}, withPolicy("round-robin"))
			tt.fail(bad)
			for range 4 { // round robin: each worker is asked first twice
				resp, got := h.Post("/generate", tt.body)
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Equal(t, idsReply, got)
				assert.Equal(t, good.URL, resp.Header.Get("X-Warmpath-Worker"))
			}
		})
	}
}

// TestStreamsFailOver: nothing is promised by the events that come before the first text, nor by a comment that came with an error.
func TestStreamsFailOver(t *testing.T) {
	t.Parallel()
	const generated = "data: {\"meta_info\":{\"id\":\"a\"}}\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct {
		path, body, answer, failure string
		cut                         bool // the failure is that nothing follows
	}{
		"an error of a message":       {"/v1/messages", messagesBody, messageStart + messageText + messageEnd, messageStart + messageError, false},
		"a response that fails":       {"/v1/responses", responsesBody, responseBegin + responseDelta + responseEnd, responseBegin + responseFailed, false},
		"a response that ends":        {"/v1/responses", responsesBody, responseBegin + responseDelta + responseEnd, responseBegin, true},
		"an error that has a comment": {"/generate", `{"input_ids":[1]`, generated, ": ping\n\ndata: {\"error\":{\"message\":\"x\",\"code\":500}}\n\ndata: [DONE]\n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failsOver(t, c.path, c.body, c.answer, func(bad *fakeWorker) {
				if !c.cut {
					bad.Streams(c.path, c.failure)
					return
				}
				bad.Breaks(c.path, c.failure)
			})
		})
	}
}

func TestHangingWorkerLosesItsWaitingRequests(t *testing.T) {
	t.Parallel()
	overBoth(t, testHangingWorkerLosesItsWaitingRequests)
}

func testHangingWorkerLosesItsWaitingRequests(t *testing.T) {
	t.Helper()
	hung, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	release := make(chan struct{})
	wait := func(http.ResponseWriter, *http.Request) { <-release }
	good.Answers("/generate", idsReply)
	arrived := make(chan struct{}, 8)
	hung.On("/generate", func(rw http.ResponseWriter, r *http.Request) { arrived <- struct{}{}; wait(rw, r) })
	h := start(t, []*fakeWorker{hung, good}, withPolicy("round-robin"), withWorkers(soonHung))
	t.Cleanup(func() { close(release) })
	type answer struct {
		resp *http.Response
		body string
	}
	answers := make(chan answer, 2)
	for range 2 { // one of the two goes to the worker that hangs
		go func() {
			resp, body, err := h.Try(http.MethodPost, h.Base+"/generate", idsBody)
			assert.NoError(t, err)
			answers <- answer{resp, body}
		}()
	}
	<-arrived
	hung.On("/ready", wait)
	for range 2 {
		a := <-answers
		assert.Equal(t, http.StatusOK, a.resp.StatusCode)
		assert.Equal(t, idsReply, a.body)
		assert.Equal(t, good.URL, a.resp.Header.Get("X-Warmpath-Worker"))
	}
}

func TestJSONCutShortIsNotTakenForWhole(t *testing.T) {
	overBoth(t, testJSONCutShortIsNotTakenForWhole)
}

func testJSONCutShortIsNotTakenForWhole(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Dies("/generate", func(rw http.ResponseWriter) {
		_, _ = io.WriteString(rw, `{"meta_info":{"id":"a"},"text":"`+strings.Repeat("x", 32<<10))
	})
	h := start(t, []*fakeWorker{w})
	_, _, err := h.Try(http.MethodPost, h.Base+"/generate", idsBody)
	assert.Error(t, err, "the client's connection is cut")
}

func TestClientThatLeavesIsAborted(t *testing.T) { overBoth(t, testClientThatLeavesIsAborted) }

func testClientThatLeavesIsAborted(t *testing.T) {
	t.Helper()
	for _, stream := range []string{"true", "false"} {
		t.Run("stream="+stream, func(t *testing.T) {
			w := newFakeWorker(t, info(1))
			begun, ended := make(chan struct{}), make(chan struct{})
			w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
				if stream == "true" {
					_, _ = io.WriteString(rw, "data: one\n\n")
					rw.(http.Flusher).Flush()
				}
				close(begun)
				<-r.Context().Done()
				close(ended)
			})
			h := start(t, []*fakeWorker{w})
			leave := h.hold("/generate", `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x","stream":`+stream+`}`)
			<-begun
			leave()
			<-ended // the worker's connection is closed
			assert.Equal(t, `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9"}`, <-w.Aborted)
		})
	}
}

func TestRanksAreNamedToTheWorker(t *testing.T) { overBoth(t, testRanksAreNamedToTheWorker) }

func testRanksAreNamedToTheWorker(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(2))
	ranks := make(chan string, 4)
	w.On("/v1/completions", func(rw http.ResponseWriter, r *http.Request) {
		ranks <- r.Header.Get("X-Data-Parallel-Rank")
		_, _ = io.WriteString(rw, `{"choices":[{"text":"","message":{"content":""}}]}`)
	})
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w}, withPolicy("round-robin"))
	resp, _ := h.Post("/v1/completions", `{"model":"tiny","prompt":[1,2,3]}`)
	assert.Equal(t, w.URL+"#0", resp.Header.Get("X-Warmpath-Worker"))
	h.Post("/v1/completions", `{"model":"tiny","prompt":[1,2,3]}`)
	assert.Equal(t, "0", <-ranks)
	assert.Equal(t, "1", <-ranks)

	h.Post("/generate", idsBody)
	assert.Contains(t, w.LastBody(), `,"routed_dp_rank":0}`)

	resp, _ = h.Post("/generate", `{"input_ids":[1],"routed_dp_rank":1}`)
	assert.Equal(t, w.URL+"#1", resp.Header.Get("X-Warmpath-Worker"), "the client's own choice of rank counts")
}

func TestDrainAnswersWhatHasBegun(t *testing.T) { overBoth(t, testDrainAnswersWhatHasBegun) }

func testDrainAnswersWhatHasBegun(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	begun, finish := make(chan struct{}), make(chan struct{})
	w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, "data: one\n\n")
		rw.(http.Flusher).Flush()
		close(begun)
		<-finish
		_, _ = io.WriteString(rw, "data: [DONE]\n\n")
	})
	h := start(t, []*fakeWorker{w})
	answer := make(chan string, 1)
	go func() {
		_, got, err := h.Try(http.MethodPost, h.Base+"/generate", `{"text":"x","stream":true}`)
		assert.NoError(t, err)
		answer <- got
	}()
	<-begun
	stopped := make(chan struct{})
	go func() { h.Stop(); close(stopped) }()
	require.Eventually(t, func() bool { return h.Admin.Status().Draining }, patience, tick)
	close(finish)
	assert.Equal(t, "data: one\n\ndata: [DONE]\n\n", <-answer)
	<-stopped
}

// A connection that was opened ahead and never used does not delay the drain.
func TestDrainDoesNotWaitForSilentConnections(t *testing.T) {
	t.Parallel()
	overBoth(t, testDrainDoesNotWaitForSilentConnections)
}

func testDrainDoesNotWaitForSilentConnections(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, withDrain(time.Hour))
	h.dial()
	conn, _ := h.dial() // over TLS, one that has said who it is
	if c, ok := conn.(*tls.Conn); ok {
		require.NoError(t, c.Handshake())
	}
	resp, _ := h.Do(http.MethodGet, h.Base+"/health", "") // the ones before are accepted by now
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	stopped := make(chan struct{})
	go func() { h.Stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(patience): // the drain's own limit is far beyond
		t.Fatal("the drain waits for a connection without a request")
	}
}
