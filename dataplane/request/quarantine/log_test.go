package quarantine_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request/quarantine"
)

// TestCulpritsAreLoggedByName: whether the client stayed until the engine died, or left before.
func TestCulpritsAreLoggedByName(t *testing.T) {
	var log strings.Builder
	q := quarantine.New(quarantine.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.True(t, q.Lost(lost(1, "a", 0, nil)))
	second := lost(1, "b", 20, nil)
	second.Name = "stayed"
	require.False(t, q.Lost(second))
	assert.Contains(t, log.String(), "request_id=stayed")

	for i, worker := range []string{"c", "d"} {
		q.Abandoned(2, "left", worker, at(float64(100*i+100)))
		q.WorkerDied(worker, at(float64(100*i+101)))
	}
	assert.Contains(t, log.String(), "request_id=left")
}
