package worker_test

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const topology = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"

// prefill makes a fake a prefill worker with a bootstrap server that answers with a status.
func prefill(status, port int) func(f *fake) {
	return func(f *fake) {
		f.answers["/server_info"] = `{"page_size":16,"disaggregation_mode":"prefill","disaggregation_bootstrap_port":` + strconv.Itoa(port) + `}`
		f.answers[topology] = `{"attn_tp_size":1,"dp_size":1,"page_size":16}`
		f.statuses[topology] = status
	}
}

const bootstrapAddr = "10.0.0.5:8998"

// TestBootstrap: a prefill worker is ready when its bootstrap server says so, and its cache
// outlives that server.
func TestBootstrap(t *testing.T) {
	watch(t, prefill(503, 8998), func(b *bench) {
		b.after(probed)
		b.want(worker.Probing, "up")
		require.Contains(t, b.worker.LastError(), bootstrapAddr+" answered 503")
		require.Equal(t, worker.Bootstrap{Host: "10.0.0.5", Port: 8998}, b.worker.Bootstrap())
		require.Equal(t, worker.RolePrefill, b.worker.Role())

		change := func(f func(), after time.Duration, state worker.State, says string) {
			t.Helper()
			b.fake.with(f)
			b.after(after)
			b.want(state, "up")
			require.Contains(t, b.worker.LastError(), says)
		}
		change(func() { b.fake.statuses[topology] = 0 }, probed, worker.Ready, "")
		change(func() { b.fake.statuses[topology] = 500 }, probed, worker.Probing, "answered 500")
		change(func() { b.fake.statuses[topology] = 0 }, probed, worker.Ready, "")
		change(func() { b.fake.refuses, b.fake.statuses[topology] = bootstrapAddr, 0 }, probed, worker.Ready, "") // the connection stands
		b.fake.set(cutting)
		b.after(probed)
		b.want(worker.Dead, "up", "down")
		b.fake.set(up)
		b.after(probed)
		b.want(worker.Probing, "up", "down", "up")
		require.Contains(t, b.worker.LastError(), "refused")
		b.fake.with(func() { b.fake.refuses = "" })
		b.after(probed)
		b.want(worker.Ready, "up", "down", "up")
	})
}

// TestBootstrapHangs: probes of it have a deadline, and a worker that hangs there is slow as
// one that hangs elsewhere.
func TestBootstrapHangs(t *testing.T) {
	watch(t, prefill(0, 8998), func(b *bench) {
		b.after(probed)
		b.want(worker.Ready, "up")
		b.fake.with(func() { b.fake.hang[topology] = true })
		b.after(timedOut)
		b.want(worker.Slow, "up")
		require.Contains(t, b.worker.LastError(), "timeout")
		b.fake.with(func() { b.fake.hang[topology] = false })
		b.after(timedOut)
		b.want(worker.Ready, "up")
	})
}

func TestBootstrapIsRemovedWhileItHangs(t *testing.T) {
	watch(t, func(f *fake) { prefill(0, 8998)(f); f.hang[topology] = true }, func(b *bench) {
		b.after(10 * time.Millisecond)
		began := time.Now()
		require.NoError(t, b.registry.Remove(fakeURL))
		require.Zero(t, time.Since(began), "time until a worker with a hanging bootstrap server was removed")
	})
}

// TestRoles: the worker's own role counts, and a difference from its spec is logged once.
func TestRoles(t *testing.T) {
	said := func(mode string) string {
		return `{"disaggregation_mode":` + mode + `,"disaggregation_bootstrap_port":9001}`
	}
	tests := []struct {
		name  string
		spec  worker.Spec
		info  string
		role  worker.Role
		boot  string // "" for none
		warns int
	}{
		{"any, regular", worker.Spec{}, said(`"null"`), worker.RoleRegular, "", 0},
		{"any, prefill", worker.Spec{}, said(`"prefill"`), worker.RolePrefill, "10.0.0.5:9001", 0},
		{"any, decode", worker.Spec{}, said(`"decode"`), worker.RoleDecode, "", 0},
		{"prefill", worker.Spec{Role: worker.RolePrefill}, said(`"prefill"`), worker.RolePrefill, "10.0.0.5:9001", 0},
		{"prefill that does not tell", worker.Spec{Role: worker.RolePrefill}, `{"page_size":1}`, worker.RolePrefill, "10.0.0.5:8998", 0},
		{"decode that does not tell", worker.Spec{Role: worker.RoleDecode}, `{"page_size":1}`, worker.RoleDecode, "", 0},
		{"no decode", worker.Spec{Role: worker.RoleDecode}, said(`"prefill"`), worker.RolePrefill, "10.0.0.5:9001", 1},
		{"no prefill", worker.Spec{Role: worker.RolePrefill}, said(`"null"`), worker.RoleRegular, "", 1},
		{
			"a port given",
			worker.Spec{Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 9001}},
			said(`"prefill"`),
			worker.RolePrefill, "10.0.0.5:9001", 0,
		},
		{
			"another port given",
			worker.Spec{Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 7000}},
			said(`"prefill"`),
			worker.RolePrefill, "10.0.0.5:7000", 1,
		},
		{
			"another host given",
			worker.Spec{Bootstrap: worker.Bootstrap{Host: "fd00::1", Port: 7000}},
			said(`"prefill"`),
			worker.RolePrefill, "[fd00::1]:7000", 0,
		},
		{
			"on the API's port",
			worker.Spec{},
			`{"disaggregation_mode":"prefill","disaggregation_bootstrap_port":30000}`,
			worker.RolePrefill, "10.0.0.5:30000", 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.URL = fakeURL
			var log bytes.Buffer
			watchAs(t, tt.spec, slog.NewTextHandler(&log, nil), func(f *fake) { f.answers["/server_info"], f.answers[topology] = tt.info, "{}" }, func(b *bench) {
				b.after(probed)
				b.want(worker.Ready, "up")
				b.fake.set(refusing)
				b.after(probed)
				b.fake.set(up)
				b.after(probed) // described anew
				b.want(worker.Ready, "up", "down", "up")
				assert.Equal(t, tt.role, b.worker.Role())
				assert.Equal(t, tt.role.String(), b.worker.Info().Role().String())
				dialed := []string{"10.0.0.5:30000"}
				if tt.boot == "" {
					assert.Zero(t, b.worker.Bootstrap())
				} else {
					assert.Equal(t, tt.boot, b.worker.Bootstrap().Addr())
					if tt.boot != dialed[0] {
						dialed = append(dialed, tt.boot)
					}
				}
				b.fake.with(func() { assert.Equal(t, dialed, b.fake.dialed) })
			})
			warns := strings.Count(log.String(), "level=WARN") - strings.Count(log.String(), "state=dead") // that it died is one too
			assert.Equal(t, tt.warns, warns, log.String())
		})
	}
}

func TestParsePrefill(t *testing.T) {
	at := func(host string, port int) worker.Spec {
		return worker.Spec{URL: "http://a:1", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Host: host, Port: port}}
	}
	for text, want := range map[string]worker.Spec{
		"http://a:1": at("", 0), "http://a:1,8998": at("", 8998), "http://a:1,b:1": at("b", 1), "http://a:1,[fd00::1]:65535": at("fd00::1", 65535), "http://a:1,:5": at("", 5),
	} {
		got, err := worker.ParsePrefill(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"http://a:1,", "http://a:1,0", "http://a:1,65536", "http://a:1,-1", "http://a:1,x", "http://a:1,b:", "http://a:1,b:c:1", "http://a:1,1,2"} {
		_, err := worker.ParsePrefill(text)
		require.ErrorIs(t, err, worker.ErrBadURL, text)
	}
}

// FuzzParsePrefill: a written spec reads as the same.
func FuzzParsePrefill(f *testing.F) {
	f.Add("http://a:1", "", 0)
	f.Add("http://a:1", "fd00::1", 8998)
	f.Fuzz(func(t *testing.T, url, host string, port int) {
		text, want := url, worker.Spec{URL: url, Role: worker.RolePrefill}
		if port > 0 && port < 65536 {
			want.Bootstrap.Port = port
			if text += "," + strconv.Itoa(port); host != "" {
				want.Bootstrap.Host = host
				text = url + "," + want.Bootstrap.Addr()
			}
		}
		got, err := worker.ParsePrefill(text)
		if strings.Contains(url, ",") || strings.ContainsAny(host, "[]%") {
			return // no URL and no host
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// TestNodes: workers of one host have one number, and numbers stay small.
func TestNodes(t *testing.T) {
	r := unwatched(t)
	add := func(url string) *worker.Worker {
		w, err := r.Add(url)
		require.NoError(t, err)
		return w
	}
	a, b, second := add("http://a:1"), add("http://b:1"), add("http://a:2")
	require.Equal(t, []uint32{0, 1, 0}, []uint32{a.HostNumber(), b.HostNumber(), second.HostNumber()})
	require.NoError(t, r.Remove("http://a:1"))
	require.EqualValues(t, 2, add("http://c:1").HostNumber(), "somebody is still on the first")
	require.NoError(t, r.Remove("http://a:2"))
	require.EqualValues(t, 0, add("http://d:1").HostNumber())
}
