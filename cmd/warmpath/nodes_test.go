package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// TestTextOfOthers: what workers say of themselves cannot move the cursor of an operator's terminal,
// nor set its title, nor turn its text around.
func TestTextOfOthers(t *testing.T) {
	const evil = "tiny\x1b[2J\x1b]0;x\x07\r\u009b1A\u202e"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := admin.WorkerStatus{Events: &admin.EventsStatus{}, GPUs: &admin.GPUHealthStatus{}}
		one.ID, one.State, one.Model, one.Error, one.Drain = "http://w:80", "ready", evil, evil, []string{evil}
		switch r.URL.Path {
		case "/workers":
			_ = json.NewEncoder(w).Encode(map[string]any{"workers": []admin.WorkerStatus{one}})
		case "/explain":
			_ = json.NewEncoder(w).Encode(admin.Explained{Error: evil})
		case "/workers/drain":
			_ = json.NewEncoder(w).Encode(map[string]any{"scope": "router", "reason": evil})
		case "/status":
			one.Concerns = []admin.Concern{{Subject: evil, Text: evil, Advice: evil}}
			_ = json.NewEncoder(w).Encode(admin.Status{Workers: []admin.WorkerStatus{one}})
		}
	}))
	defer s.Close()
	for _, args := range [][]string{{"workers"}, {"explain", "--text", "x"}, {"drain", "http://w:80"}, {"doctor"}} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append(args, "--router", s.URL))
		if err := root.Execute(); err != nil && args[0] != "doctor" {
			t.Fatalf("%q: %v", args, err)
		}
		if text := out.String(); !strings.Contains(text, "]0;x") || strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf))
		}) {
			t.Errorf("%q writes %q", args, text)
		}
	}
}
