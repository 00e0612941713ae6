package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// drainAnswer is the answer of POST and DELETE /workers/drain.
type drainAnswer struct {
	Drain  bool   `json:"drain"`
	Scope  string `json:"scope"`
	Reason string `json:"reason"`
}

func drainAt(t *testing.T, method, router, url string) drainAnswer {
	t.Helper()
	body, err := json.Marshal(map[string]string{"url": url})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, router+"/workers/drain", bytes.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
	var answer drainAnswer
	require.NoError(t, json.Unmarshal(text, &answer))
	return answer
}

func stateAt(router *router.Router, url string) string {
	for _, w := range router.Status().Workers {
		if w.URL == url {
			return w.State
		}
	}
	return ""
}

// TestDrainIsOfTheCluster: workers that routers were given by --worker are drained at all of them by whoever asks one, and by the
// command. Without NATS it holds at one router, which says so.
func TestDrainIsOfTheCluster(t *testing.T) {
	t.Parallel()
	r, _ := startRouters(t, 3, 2)
	bases := strings.Split(r.urls(), ",")
	url, other := r.sims[0].URL(), r.sims[1].URL()
	nats := r.nats[0].URL()
	everywhere := func(state string) {
		t.Helper()
		testkit.AwaitThat(t, func() bool {
			for _, router := range r.all {
				if stateAt(router, url) != state {
					return false
				}
			}
			return true
		}, func() string { return "not everywhere " + state })
	}
	unused := func() {
		t.Helper()
		for i := range 12 {
			_, worker, err := chatFor(t.Context(), http.DefaultClient, bases[i%len(bases)], "simulated", i)
			require.NoError(t, err)
			require.Equal(t, other, worker, "request %d", i)
		}
	}
	require.Equal(t, drainAnswer{Drain: true, Scope: "cluster"}, drainAt(t, http.MethodPost, bases[1], url+"/"))
	everywhere("draining")
	unused()
	var text string
	testkit.AwaitThat(t, func() bool {
		var err error
		text, err = operate(t, "workers", "--cluster", nats)
		require.NoError(t, err)
		return strings.Contains(text, url)
	}, func() string { return text })
	require.Regexp(t, url+` +- +draining`, text)
	require.Regexp(t, other+` +- +up`, text)
	require.Equal(t, drainAnswer{Scope: "cluster"}, drainAt(t, http.MethodDelete, bases[2], url))
	everywhere("ready")

	text, err := operate(t, "drain", url+"/", "--cluster", nats, "--wait", "--timeout", patience.String())
	require.NoError(t, err)
	require.Contains(t, text, url+" is draining\n"+url+" has nothing in flight")
	everywhere("draining")
	unused()
	_, err = operate(t, "undrain", url, "--cluster", nats)
	require.NoError(t, err)
	everywhere("ready")
	_, err = operate(t, "drain", "http://127.0.0.1:1", "--cluster", nats)
	require.ErrorContains(t, err, "cannot find http://127.0.0.1:1; known are\n  http://")

	// A cordon lets those use it that do.
	_, err = operate(t, "cordon", url, "--cluster", nats)
	require.NoError(t, err)
	require.Equal(t, "cluster", drainAt(t, http.MethodPost, bases[0], url).Scope)
	require.Equal(t, "cluster", drainAt(t, http.MethodDelete, bases[0], url).Scope)
	everywhere("ready")
	text, err = operate(t, "uncordon", url, "--cluster", nats)
	require.NoError(t, err)
	require.Contains(t, text, url+" is up", "the cordon outlived the drain")

	require.NoError(t, r.nats[0].Close())
	testkit.AwaitThat(t, func() bool { return !r.nats[1].View().Up }, func() string { return "NATS is still there" })
	answer := drainAt(t, http.MethodPost, bases[1], url)
	require.Equal(t, "router", answer.Scope)
	require.Contains(t, answer.Reason, "other routers do not know")
	require.Equal(t, "draining", stateAt(r.all[1], url))
	require.Equal(t, "ready", stateAt(r.all[2], url))
	require.Equal(t, "router", drainAt(t, http.MethodDelete, bases[1], url).Scope)
	require.Equal(t, "ready", stateAt(r.all[1], url))
}
