package cluster

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full is a node with everything.
func full(workers int) *Node {
	n := &Node{Name: "gpu-1.example", Instance: "0123456789abcdef", Version: "1.2.3", Control: "http://gpu-1:9400", Driver: "ready", Tier: &Tier{Bytes: 64 << 30, Used: 1 << 30, Pages: 9, Endpoint: "gpu-1:9500", Agent: "gpu-1"}}
	for i := range workers {
		h := Health{State: "healthy", Weight: 0.5, Free: 7 << 30, Reasons: []string{"clocks are slowed by power"}}
		uuid := "GPU-6c3f0f4e-5b1a-4a86-9a4b-00000000000" + string(rune('0'+i))
		n.GPUs = append(n.GPUs, GPU{UUID: uuid, Index: i, Name: "NVIDIA H200", Used: 100 << 30, Total: 141 << 30, Links: 18, LinksUp: 18, Health: h})
		n.Workers = append(n.Workers, Worker{URL: "http://gpu-1.example:3000" + string(rune('0'+i)), Role: "regular", Model: "meta-llama/Llama-3.3-70B-Instruct", PID: 4242 + i, GPUs: []string{uuid}, TP: 1, DP: 1, Health: h})
	}
	return n
}

func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"a", "A", "gpu-1.example.com", "http://[::1]:30000/x?y=z&a", "ü", "=", "=41", "*", ">", " ", "a.b", "a=2Eb"} {
		k := key{kindNode, name}
		back, err := parseKey(k.String())
		require.NoError(t, err)
		assert.Equal(t, k, back)
		assert.Regexp(t, `^node\.[-_=a-zA-Z0-9]+$`, k.String())
		assert.False(t, seen[k.String()], "two names of one key")
		seen[k.String()] = true
	}
	for _, bad := range []string{"", "node", "node.", "node.a.b", "mark.a", "node.=4", "node.=zz", "node.=2d", "node.=41"} {
		_, err := parseKey(bad)
		assert.ErrorIs(t, err, errMalformed, bad)
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	valid := record{Version: version, Instance: "i", Seq: 1, Node: full(2)}
	k := key{kindNode, valid.Node.Name}
	tests := map[string]func(r *record){
		"no version":       func(r *record) { r.Version = 0 },
		"no instance":      func(r *record) { r.Instance = "" },
		"no sequence":      func(r *record) { r.Seq = 0 },
		"nothing":          func(r *record) { r.Node = nil },
		"two things":       func(r *record) { r.Router = &Router{ID: "x"} },
		"another's name":   func(r *record) { r.Node.Name = "other" },
		"no URL":           func(r *record) { r.Node.Workers[0].URL = "" },
		"a path":           func(r *record) { r.Node.Workers[0].URL = "/etc/passwd" },
		"another scheme":   func(r *record) { r.Node.Workers[0].URL = "file://x/y" },
		"a worker twice":   func(r *record) { r.Node.Workers[1].URL = r.Node.Workers[0].URL },
		"a port too high":  func(r *record) { r.Node.Workers[0].BootstrapPort = 65536 },
		"a negative size":  func(r *record) { r.Node.Workers[0].TP = -1 },
		"too much weight":  func(r *record) { r.Node.Workers[0].Health.Weight = 1.5 },
		"negative weight":  func(r *record) { r.Node.GPUs[0].Health.Weight = -1 },
		"a negative tier":  func(r *record) { r.Node.Tier.Used = -1 },
		"a negative speed": func(r *record) { r.Node.Links = []Link{{To: "x", Read: -1}} },
		"hardly a weight":  func(r *record) { r.Node.Workers[0].Health.Weight = 5e-324 },
		"hardly a speed":   func(r *record) { r.Node.Links = []Link{{To: "x", Write: 5e-324}} },
		"any speed":        func(r *record) { r.Node.Links = []Link{{To: "x", Read: 1e308}} },
		"no machine": func(r *record) {
			r.Node.Workers = nil
			for i := range MaxWorkers + 1 {
				r.Node.Workers = append(r.Node.Workers, Worker{URL: fmt.Sprintf("http://x:%d", 10000+i)})
			}
		},
		"a header as host": func(r *record) { r.Node.Workers[0].BootstrapHost = "x\r\nX-Override-Priority: 9" },
		"a path as host":   func(r *record) { r.Node.Workers[0].BootstrapHost = "x/admin?" },
		"a slow tier":      func(r *record) { r.Node.Tier.Speed = 5e-324 },
		"a fast tier":      func(r *record) { r.Node.Tier.Speed = 1e308 },
	}
	data, err := json.Marshal(valid)
	require.NoError(t, err)
	_, err = decodeRecord(k, data)
	require.NoError(t, err)
	for name, spoil := range tests {
		var r record
		require.NoError(t, json.Unmarshal(data, &r))
		spoil(&r)
		bad, err := json.Marshal(r)
		require.NoError(t, err)
		_, err = decodeRecord(k, bad)
		assert.ErrorIs(t, err, errMalformed, name)
	}
	_, err = decodeRecord(k, []byte(strings.Replace(string(data), `"v":1`, `"v":2`, 1)))
	assert.ErrorIs(t, err, errNewer)
	_, err = decodeRecord(k, append(data, make([]byte, maxRecord)...))
	assert.ErrorIs(t, err, errMalformed, "too long")
}

// FuzzDecodeRecord: accepted records are sane by an independent look at the bytes, and survive a
// round trip.
func FuzzDecodeRecord(f *testing.F) {
	good, err := json.Marshal(record{Version: version, Instance: "i", Seq: 1, Node: full(2)})
	require.NoError(f, err)
	f.Add("node.gpu-1=2Eexample", good)
	f.Add("replica.r", []byte(`{"v":1,"instance":"i","seq":3,"replica":{"id":"r","addr":"x"}}`))
	f.Add("node.x", []byte(`{"v":2}`))
	f.Add("mark", []byte(`null`))
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		k, err := parseKey(text)
		if err != nil {
			return
		}
		if k.String() != text {
			t.Fatalf("key %q came back as %q", text, k)
		}
		r, err := decodeRecord(k, data)
		if err != nil {
			return
		}
		var raw map[string]any
		if json.Unmarshal(data, &raw) != nil || !utf8.ValidString(k.name) {
			t.Fatalf("took what is no JSON object: %q", data)
		}
		if r.Node != nil {
			sane(t, r.Node, k.name)
		} else if r.Router == nil || r.Router.ID != k.name {
			t.Fatalf("took neither a node nor a router: %q", data)
		}
		again, err := json.Marshal(r)
		require.NoError(t, err)
		back, err := decodeRecord(k, again)
		require.NoError(t, err)
		last, err := json.Marshal(back)
		require.NoError(t, err)
		if string(again) != string(last) {
			t.Fatalf("%s\nbecame\n%s", again, last)
		}
		if r.Node != nil {
			facts := back.Node.facts()
			if !back.Node.setFacts(facts) && saneFacts(facts) {
				t.Fatalf("a node does not take its own numbers %v", facts)
			}
		}
	})
}

// saneFacts tells whether no number of a list was cut by its unit.
func saneFacts(list []int64) bool {
	for _, f := range list {
		if f < 0 || f > 1<<43 {
			return false
		}
	}
	return true
}

// sane checks properties that readers of a view rely on.
func sane(t *testing.T, n *Node, name string) {
	t.Helper()
	if n.Name != name {
		t.Fatalf("node %q under the key of %q", n.Name, name)
	}
	urls := map[string]bool{}
	for _, w := range n.Workers {
		u, err := url.Parse(w.URL)
		if err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") || urls[w.URL] || w.Health.Weight < 0 || w.Health.Weight > 1 || w.BootstrapPort>>16 != 0 {
			t.Fatalf("worker %+v", w)
		}
		urls[w.URL] = true
	}
}

// FuzzDecodeBeat: an accepted beat equals its JSON, and survives a round trip.
func FuzzDecodeBeat(f *testing.F) {
	f.Add((&beat{Kind: kindNode, Name: "a", Instance: "i", Seq: 3, Facts: []int64{1, 2}}).encode())
	f.Add([]byte(`{"v":1,"k":"node","n":"a","i":"i","bye":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBeat(data)
		if err != nil {
			return
		}
		if b.Name == "" || b.Instance == "" || b.Version != version {
			t.Fatalf("took %+v", b)
		}
		back, err := decodeBeat(b.encode())
		require.NoError(t, err)
		if len(b.Facts) == 0 {
			b.Facts = nil
		}
		require.Equal(t, b, back)
		// No beat harms a table.
		tb := loaded("a")
		tb.beat(&b)
		tb.beat(&back)
		pongs(tb, 2*Lease)
		if len(shown(tb)) != 0 {
			t.Fatalf("still there: %v", shown(tb))
		}
	})
}

func FuzzDecodeMark(f *testing.F) {
	f.Add("a", []byte(`{"v":1,"target":"a","drain":true}`))
	f.Fuzz(func(t *testing.T, k string, data []byte) {
		m, err := decodeMark(k, data)
		if err != nil {
			return
		}
		if escape(m.Target) != k || m.Target == "" {
			t.Fatalf("mark of %q under %q", m.Target, k)
		}
		again, err := encodeMark(m)
		if err != nil {
			return // a time that JSON cannot hold
		}
		back, err := decodeMark(k, again)
		require.NoError(t, err)
		require.True(t, m.At.Equal(back.At))
	})
}
