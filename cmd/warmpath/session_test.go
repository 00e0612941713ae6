package main

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
)

// metric reads one number of /metrics, 0 where there is none of that name and labels.
func metric(t *testing.T, base, name string) float64 {
	t.Helper()
	resp, err := http.Get(base + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return v
}

// TestLongConversationsAreRecalled has prompts that the session cache knows but for their last turn: they are routed as exactly as
// the short ones that it never keeps, and the workers see every id.
func TestLongConversationsAreRecalled(t *testing.T) {
	cl, base := startCluster(t, 3, sim.Config{}, "kv")
	system := prompt(2500, 7)
	for conversation := range 3 {
		history, home := append(append([]uint32{}, system...), prompt(2500, 100+conversation)...), ""
		for turn := range 4 {
			r := generate(t, cl, history, "")
			assert.Equal(t, r.cached, r.matched*page, "conversation %d turn %d", conversation, turn)
			assert.Equal(t, []int{len(history), len(history) / page}, []int{r.prompt, r.total})
			if turn > 0 {
				assert.Equal(t, home, r.worker, "a turn follows its conversation")
				assert.Positive(t, r.cached)
			}
			home = r.worker
			history = append(append(history, r.ids...), prompt(300, 1000*conversation+turn)...)
		}
	}
	session := func(name string) float64 { return metric(t, base, "warmpath_session_"+name) }
	assert.Equal(t, 10.0, session(`prompts_total{result="known"}`), "a beginning is remembered the second time it comes")
	assert.Equal(t, 2.0, session(`prompts_total{result="fresh"}`))
	assert.Greater(t, session(`prompt_bytes_total{kind="recalled"}`), session(`prompt_bytes_total{kind="parsed"}`))
	assert.Positive(t, session("pieces"))
	assert.Positive(t, session("cache_bytes"))
}
