package fleet

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestWorkerSpecs(t *testing.T) {
	c := SourceConfig{
		Workers: []string{"http://a:1"}, Prefill: []string{"http://b:1", "http://c:1,9000"}, Decode: []string{"http://d:1"},
	}
	got, err := c.specs()
	require.NoError(t, err)
	require.Equal(t, []worker.Spec{
		{URL: "http://a:1"},
		{URL: "http://b:1", Role: worker.RolePrefill},
		{URL: "http://c:1", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 9000}},
		{URL: "http://d:1", Role: worker.RoleDecode},
	}, got)

	_, err = (&SourceConfig{Prefill: []string{"http://b:1,port"}}).Sources(slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, worker.ErrBadURL)
}
