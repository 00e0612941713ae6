package zmq_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// curveFile writes a key file and makes the environment name it.
func curveFile(t *testing.T, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "curve.keys")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	t.Setenv(zmq.EnvCurve, path)
	return path
}

func TestCurveKeyFiles(t *testing.T) {
	key := strings.Repeat("k", 40)
	good := []string{"server-key " + key, "", "public-key  " + key, "secret-key " + key}
	path := curveFile(t, good...)
	require.NoError(t, zmq.ReadCurveKeys(path))
	for name, lines := range map[string][]string{
		"has no":                         good[:3],
		"line 1":                         {"server " + key},
		"line 2":                         {good[0], good[0]},
		"line 3 of " + path:              {good[0], good[2], "secret-key " + key[1:]},
		"each with 40 characters of Z85": {"server-key"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
		err := zmq.ReadCurveKeys(path)
		require.ErrorIs(t, err, zmq.ErrCurve)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), key[1:])
	}
	require.ErrorIs(t, zmq.ReadCurveKeys(filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
}

// TestCurveIsNotIgnored: if CURVE is configured and cannot be used, nothing is sent in the clear.
func TestCurveIsNotIgnored(t *testing.T) {
	curveFile(t, "nonsense")
	_, err := zmq.Curve()
	require.ErrorIs(t, err, zmq.ErrCurve)
	require.ErrorIs(t, zmq.Subscribe(t.Context(), zmq.Subscription{
		Endpoint: "tcp://127.0.0.1:1", OnMessage: func(zmq.Message) {},
	}), zmq.ErrCurve)
	_, err = zmq.Replay(t.Context(), "tcp://127.0.0.1:1", 0, ignore)
	require.ErrorIs(t, err, zmq.ErrCurve)
}
