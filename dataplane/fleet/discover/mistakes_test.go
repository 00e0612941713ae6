package discover_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestMistakesInSlices: a mistake in an EndpointSlice is named and takes no worker out of use, in
// that slice or in others, however the router learns of it. What changes beside it counts.
func TestMistakesInSlices(t *testing.T) {
	object := func(all any, at int) map[string]any { return all.([]any)[at].(map[string]any) }
	role := func(m map[string]any, value any) {
		m["metadata"].(map[string]any)["labels"] = map[string]any{"warmpath.io/role": value}
	}
	const a, b, c = "http://10.0.0.1:30000", "http://10.0.0.2:30000", "http://10.0.1.1:30000"
	tests := []struct {
		name  string
		wrong func(m map[string]any)
		words string
		want  []string
	}{
		{"role misspelt", func(m map[string]any) { role(m, "prefll") }, `role "prefll"`, []string{a, b, c}},
		{"role of another type", func(m map[string]any) { role(m, 1) }, "its field metadata.labels", []string{a, b, c}},
		{"port renamed", func(m map[string]any) { object(m["ports"], 1)["name"] = "web" }, `no port named "http" but "metrics", "web"`, []string{a, b, c}},
		{"port gone", func(m map[string]any) { m["ports"] = nil }, `no port named "http"`, []string{a, b, c}},
		{"port out of range", func(m map[string]any) { object(m["ports"], 1)["port"] = 70000 }, `no port named "http"`, []string{a, b, c}},
		{"port as text", func(m map[string]any) { object(m["ports"], 1)["port"] = "30000" }, "its field ports.port is a JSON string", []string{a, b, c}},
		{"bootstrap port out of range", func(m map[string]any) { object(m["ports"], 2)["port"] = -1 }, `its port "bootstrap" is -1`, []string{a, b, c}},
		{"ports no list", func(m map[string]any) { m["ports"] = "http" }, "its field ports", []string{a, b, c}},
		{"endpoints no list", func(m map[string]any) { m["endpoints"] = map[string]any{} }, "its field endpoints", []string{a, b, c}},
		{"conditions no object", func(m map[string]any) { object(m["endpoints"], 0)["conditions"] = "ready" }, "its field endpoints.conditions", []string{a, b, c}},
		{"one address unusable", func(m map[string]any) { object(m["endpoints"], 1)["addresses"] = []any{"10.0.0.2/x"} }, "its endpoint 1", []string{a, c}},
		{"all addresses unusable", func(m map[string]any) {
			for i := range 2 {
				object(m["endpoints"], i)["addresses"] = []any{"not an address"}
			}
		}, "its endpoint 0", []string{a, b, c}},
		{"an evicted pod has no address", func(m map[string]any) { object(m["endpoints"], 1)["addresses"] = []any{} }, "", []string{a, c}},
		{"an address is null", func(m map[string]any) { object(m["endpoints"], 1)["addresses"] = nil }, "", []string{a, c}},
		{"an endpoint is null", func(m map[string]any) { m["endpoints"].([]any)[1] = nil }, "", []string{a, c}},
	}
	for _, test := range tests {
		for _, relisted := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				api := newAPIServer(t)
				prefill := map[string]string{"warmpath.io/role": "prefill"}
				api.put(slice("a", prefill, "10.0.0.1", "10.0.0.2"))
				d, s := follow(t, "kubernetes:inference/sglang?api="+api.http.URL)
				d.tells(t, a, b)
				wrong := slice("a", prefill, "10.0.0.1", "10.0.0.2")
				wrong.change = test.wrong
				if relisted {
					api.with(func() { api.down, api.hangUp = true, api.hangUp+1 })
					troubled(t, s, "etcd has no leader")
				}
				api.put(wrong)
				api.put(slice("b", nil, "10.0.1.1"))
				if relisted {
					api.with(func() { api.down = false })
				}
				for _, spec := range d.tells(t, test.want...) {
					require.Equal(t, spec.URL != c, spec.Role == worker.RolePrefill, spec.URL)
				}
				troubled(t, s, test.words)
				if test.words != "" {
					troubled(t, s, "EndpointSlice a")
				}
				api.put(slice("a", nil, "10.0.0.1"))
				d.tells(t, a, c)
				troubled(t, s, "")
				api.remove("a")
				d.tells(t, c)
			})
		}
	}
}

// TestNewSliceWithAMistake: nothing of it was ever usable, so nothing of it is used.
func TestNewSliceWithAMistake(t *testing.T) {
	api := newAPIServer(t)
	wrong := slice("a", map[string]string{"warmpath.io/role": "Decode"}, "10.0.0.1")
	api.put(wrong)
	api.put(slice("b", nil, "10.0.1.1"))
	d, s := follow(t, "kubernetes:inference/sglang?api="+api.http.URL)
	d.tells(t, "http://10.0.1.1:30000")
	troubled(t, s, "want regular, prefill or decode")
	api.put(slice("a", nil))
	troubled(t, s, "")
	api.put(wrong)
	troubled(t, s, "want regular, prefill or decode")
	d.tells(t, "http://10.0.1.1:30000")
}

// TestMistakesInFiles: as in slices. An entry that can be told by its URL stays as it was.
func TestMistakesInFiles(t *testing.T) {
	const good = "- {url: http://a:1, role: prefill, bootstrap: 8998}\n- http://b:1\n"
	for name, test := range map[string]struct {
		text, words string
		want        []string
	}{
		"role misspelt":      {"- {url: http://a:1, role: prefil}\n- http://b:1\n- http://c:1", "line 1", []string{"http://b:1", "http://c:1", "http://a:1"}},
		"unknown field":      {"- {rol: prefill, url: http://a:1}\n- http://c:1", `there is no field "rol"`, []string{"http://c:1", "http://a:1"}},
		"bad URL":            {"- {url: 'ftp://a:1', role: prefill}\n- http://b:1", "want http://host:port", []string{"http://b:1"}},
		"port out of range":  {"- http://a:70000\n- http://c:1", "port from 1 to 65535", []string{"http://c:1"}},
		"a word too many":    {"http://a:1 prefill 8998 now\nhttp://c:1", "line 1", []string{"http://c:1", "http://a:1"}},
		"twice":              {"http://b:1\nhttp://b:1 decode\nhttp://c:1", "in line 1 already", []string{"http://b:1", "http://c:1"}},
		"a nested list":      {"- [http://a:1]\n- http://b:1", "line 1", []string{"http://b:1"}},
		"every entry is bad": {"nonsense\nmore of it", "line 1", []string{"http://a:1", "http://b:1"}},
		"no YAML":            {"- {url: http://a:1", "line 1", []string{"http://a:1", "http://b:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "workers.yaml")
			write(t, path, good)
			d, s := follow(t, "file:"+path)
			d.tells(t, "http://a:1", "http://b:1")
			write(t, path, test.text)
			troubled(t, s, test.words)
			for _, spec := range d.tells(t, test.want...) {
				require.Equal(t, spec.URL == "http://a:1", spec.Role == worker.RolePrefill, "%s as it was", spec.URL)
			}
			require.Equal(t, name == "no YAML", strings.Contains(d.logged(), "known ones stay"), "of a list that is read, those that it leaves out go")
			write(t, path, "http://c:1")
			d.tells(t, "http://c:1")
			troubled(t, s, "")
		})
	}
}

// TestMistakesInRecords: a target that is no host name is named, and the others are used.
func TestMistakesInRecords(t *testing.T) {
	server := newNameServer(t)
	name := func(targets ...string) {
		server.mu.Lock()
		defer server.mu.Unlock()
		server.targets = targets
	}
	name("a.example:1", "b.example:1")
	d, s := follow(t, "dns-srv:_sglang._tcp.workers.example?interval=100ms&server="+server.addr)
	d.tells(t, "http://a.example:1", "http://b.example:1")
	name("a.example:1", "b example:1", "c.example:1")
	d.tells(t, "http://a.example:1", "http://c.example:1")
	troubled(t, s, "b example")
	name("b example:1")
	troubled(t, s, "b example")
	d.tells(t, "http://a.example:1", "http://c.example:1")
	name("a.example:1")
	d.tells(t, "http://a.example:1")
	troubled(t, s, "")
}
