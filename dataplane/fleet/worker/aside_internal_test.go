package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLogOfWhatIsSetAside: the log has each field of a rank's reports, and its events, once when
// they are set aside and once when they count again.
func TestLogOfWhatIsSetAside(t *testing.T) {
	w, err := newWorker(Spec{URL: "http://a:1"}, nil, new(numbers))
	require.NoError(t, err)
	var lines bytes.Buffer
	m := &monitor{w: w, cfg: &Config{Log: slog.New(slog.NewTextHandler(&lines, nil))}}
	logged := func() []string {
		m.logAside()
		m.logAside()
		defer lines.Reset()
		var said []string
		for line := range strings.Lines(lines.String()) {
			_, rest, _ := strings.Cut(line, `msg="`)
			text, _, _ := strings.Cut(rest, `"`)
			said = append(said, text)
		}
		return said
	}
	require.Empty(t, logged())
	rank, now := w.Ranks()[0], time.Unix(1000, 0)
	for range 10 {
		now = now.Add(time.Second)
		rank.Load.Report(now, Report{Used: 990, Pool: 1000})
	}
	rank.LostEvents(now)
	require.Equal(t, []string{
		"a rank's KV events are set aside; it is known by the requests sent to it and by their answers until they are right",
		"a rank's load report contradicts the router's account; the field is set aside",
	}, logged())
	rank.WholeHistory()
	require.Equal(t, []string{"a rank's KV events are believed again"}, logged())
	for range 10 {
		now = now.Add(time.Second)
		rank.Load.Report(now, Report{Used: 0, Pool: 1000})
	}
	require.Equal(t, []string{"a rank's load report is believed again"}, logged())
}
