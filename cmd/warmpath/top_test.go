package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
)

// TestTopOnNoTerminal: scripts get one plain picture of a real router.
func TestTopOnNoTerminal(t *testing.T) {
	cl, base := startCluster(t, 2, sim.Config{}, "kv")
	generate(t, cl, prompt(800, 1), "")
	t.Setenv(routerEnv, base)
	text, err := warmpath(t, "", "top")
	require.NoError(t, err)
	assert.Contains(t, text, "2 of 2 workers ready")
	for _, w := range cl.sims {
		assert.Regexp(t, w.URL()[len("http://"):]+` +ready +\d+s `, text)
	}
	assert.NotContains(t, text, "\x1b")

	_, err = warmpath(t, "", "top", "--router", "127.0.0.1:1")
	require.ErrorContains(t, err, "cannot ask the router at http://127.0.0.1:1")
	for _, bad := range []string{"0s", "-1s", "1ms", "9999h"} {
		_, err = warmpath(t, "", "top", "--interval="+bad)
		require.ErrorContains(t, err, "cannot use --interval ", bad)
		require.ErrorContains(t, err, ": want ", bad)
	}
}
