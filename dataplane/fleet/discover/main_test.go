package discover_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Folder() // of etcd's program and data
	leaktest.Main(m)
}

// patience is how long a test waits for an expected event on a slow machine.
const patience = 2 * time.Minute

// told collects the sets of a source.
type told struct {
	mu   sync.Mutex
	sets [][]worker.Spec
	log  strings.Builder
}

// Write implements io.Writer for the source's log.
func (d *told) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

func (d *told) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func (d *told) last() (specs []worker.Spec, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sets) == 0 {
		return nil, false
	}
	return d.sets[len(d.sets)-1], true
}

func (d *told) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sets)
}

// follow runs a source until the test ends.
func follow(t *testing.T, text string) (*told, discover.Source) {
	t.Helper()
	return followTuned(t, text, func(discover.Source) {})
}

// followTuned is follow with a source that is changed before it runs.
func followTuned(t *testing.T, text string, tune func(discover.Source)) (*told, discover.Source) {
	t.Helper()
	d := &told{}
	s, err := discover.Parse(text, slog.New(slog.NewTextHandler(d, nil)))
	require.NoError(t, err)
	require.Equal(t, text, s.Name())
	tune(s)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(specs []worker.Spec) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.sets = append(d.sets, specs)
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return d, s
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(t, "waited for too long for "+what)
		}
	}
}

// tells waits until the source tells of just these URLs.
func (d *told) tells(t *testing.T, urls ...string) []worker.Spec {
	t.Helper()
	var got []worker.Spec
	await(t, "the set "+strings.Join(urls, " "), func() bool {
		specs, told := d.last()
		got = specs
		return told && slices.Equal(urlsOf(specs), urls)
	})
	return got
}

// troubled waits until the source has trouble that has these words, or none for "".
func troubled(t *testing.T, s discover.Source, words string) {
	t.Helper()
	of, ok := s.(discover.Troubled)
	require.True(t, ok)
	await(t, "the trouble "+words, func() bool {
		err := of.Trouble()
		if words == "" {
			return err == nil
		}
		return err != nil && strings.Contains(err.Error(), words)
	})
}

func urlsOf(specs []worker.Spec) (urls []string) {
	for _, s := range specs {
		urls = append(urls, s.URL)
	}
	return urls
}

func TestParseRefuses(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tests := map[string]string{
		"":                                      "want one of file:",
		"file":                                  "want one of file:",
		"consul:x":                              "want one of file:",
		"file:":                                 "want file:PATH",
		"file:x?y=1":                            `there is no option "y"`,
		"file:x?%zz":                            "want options as",
		"dns-srv:":                              "want dns-srv:[ROLE:]NAME",
		"dns-srv:http://x":                      "want regular, prefill or decode",
		"dns-srv:prefil:_x._tcp.example":        "want regular, prefill or decode",
		"dns-srv:_x._tcp.example?interval=1":    "want a duration from 100ms",
		"dns-srv:_x._tcp.example?interval=1ms":  "want a duration from 100ms",
		"dns-srv:_x._tcp.example?scheme=ftp":    "want http or https",
		"dns-srv:_x._tcp.example?intervall=1s":  "want scheme, interval, server",
		"dns-srv:" + strings.Repeat("x.", 200):  "cannot ask for",
		"etcd:host:2379":                        "want etcd:HOST:PORT",
		"etcd:host:2379/":                       "want etcd:HOST:PORT",
		"etcd:a:1,,b:1/x":                       "an address is empty",
		"etcd:a:1/x?ca=/does/not/exist":         "cannot read authorities",
		"etcd:a:1/x?password-file=/not/there":   "cannot read the password",
		"kubernetes:":                           "want kubernetes:[NAMESPACE/]SERVICE",
		"kubernetes:a/b/c?api=http://x":         "want kubernetes:[NAMESPACE/]SERVICE",
		"kubernetes:a/b?selector=x&api=http://": "not both",
		"kubernetes:a/b?role=x&api=http://x":    "want regular, prefill or decode",
		"kubernetes:a/b?scheme=x&api=http://x":  "want http or https",
		"kubernetes:a/b?api=nowhere":            "want http://host:port",
		"kubernetes:a/b":                        "this is no pod",
	}
	for text, want := range tests {
		_, err := discover.Parse(text, slog.New(slog.DiscardHandler))
		require.ErrorIs(t, err, discover.ErrSource, text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestStatic(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var got []worker.Spec
	s := discover.Static{Title: "flags", Specs: []worker.Spec{{URL: "http://a:1"}}}
	require.NoError(t, s.Run(ctx, func(specs []worker.Spec) { got = specs }))
	require.Equal(t, s.Specs, got)
	require.Equal(t, "flags", s.Name())
}
