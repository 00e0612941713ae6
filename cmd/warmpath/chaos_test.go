package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/chaos"
)

// TestChaos is `make chaos` in short: one storm over processes of this test's own program.
func TestChaos(t *testing.T) {
	t.Parallel() // it waits most of its time
	var said bytes.Buffer
	err := chaos.Run(t.Context(), chaos.Config{
		Program: os.Args[0], Seed: 1, Duration: chaosLasts, Every: chaosLasts / 10, Clients: 4, Calm: chaosCalm, Dir: t.TempDir(), Progress: &said,
	})
	require.NoError(t, err, said.String())
	assert.Regexp(t, `(?m)^ +\S.* +[1-9]\d*( +\d+){5}$`, said.String(), "the table has a fault")
	t.Log(said.String())
}
