package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLogFormats: a line of JSON has the keys of the line of text, and values that read alike.
func TestLogFormats(t *testing.T) {
	var text, lines strings.Builder
	for format, to := range map[string]*strings.Builder{formatText: &text, formatJSON: &lines} {
		log, level, err := newLoggerTo(to, "info", format)
		require.NoError(t, err)
		log.Debug("left out")
		log.With("worker", "http://w:1").Warn("refused", "for", 5*time.Minute, "error", errors.New("no"), "client",
			&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}, "mode", fs.FileMode(0o600), "deaths", 2, "tls", true, "reasons", []string{"a"})
		level.Set(0)
	}
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines.String()), &got), "one line: %s", lines.String())
	_, err := time.Parse(time.RFC3339, got["time"].(string))
	require.NoError(t, err)
	delete(got, "time")
	assert.Equal(t, map[string]any{
		"level": "WARN", "msg": "refused", "worker": "http://w:1", "for": "5m0s", "error": "no", "client": "127.0.0.1:7", "mode": "-rw-------",
		"deaths": 2.0, "tls": true, "reasons": []any{"a"},
	}, got)
	for key, value := range got {
		if s, isText := value.(string); isText {
			assert.Contains(t, text.String(), key+"="+s)
		}
	}

	_, _, err = newLoggerTo(nil, "info", "xml")
	require.ErrorContains(t, err, "--log-format")
	_, _, err = newLoggerTo(nil, "loud", formatJSON)
	require.ErrorContains(t, err, "--log-level")
}

// TestCommandsLogJSON: whatever a command that serves writes to standard error is JSON, the error that ends it included.
func TestCommandsLogJSON(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	at := taken.Addr().String()
	for _, args := range [][]string{
		{"serve", "--listen", at},
		{"up", "--listen", at, "--workers", "1"},
		{"node", "--listen", at, "--no-find"},
		{"node", "--listen", "127.0.0.1:0", "--no-find", "--route", "--route-listen", at},
	} {
		self := exec.CommandContext(t.Context(), os.Args[0], append(args, "--log-format", "json", "--log-level", "debug")...)
		var out strings.Builder
		self.Stderr = &out
		require.Error(t, self.Run(), args)
		last := map[string]any{}
		for line := range strings.Lines(out.String()) {
			last = map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(line), &last), "%v: %s", args, line)
			for key := range last {
				assert.NotContains(t, key, " ", args)
			}
		}
		assert.Contains(t, last["error"], "address already in use", "%v: %s", args, out.String())
	}
}

// TestTheLastErrorIsLogged: as JSON where the log is JSON, and else only by main.
func TestTheLastErrorIsLogged(t *testing.T) {
	failed := errors.New("port in use")
	for format, isLogged := range map[string]bool{formatText: false, formatJSON: true} {
		var lines strings.Builder
		log, _, err := newLoggerTo(&lines, "info", format)
		require.NoError(t, err)
		require.NoError(t, logEnd(log, format, nil))
		err = logEnd(log, format, failed)
		require.ErrorIs(t, err, failed)
		assert.Equal(t, isLogged, logged(err))
		assert.Equal(t, isLogged, strings.Contains(lines.String(), failed.Error()))
	}
}
