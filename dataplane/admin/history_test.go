package admin_test

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/admin/console"
	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/operator"
)

// TestHistory: requests become rows, of the operator's API alone.
func TestHistory(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w}, withOperator("secret"))
	counts := h.Admin.Counts()
	assert.True(t, math.IsNaN(float64(h.Admin.Status().Workers[0].RequestRate)), "of one reading")
	for range 3 {
		h.Post("/generate", idsBody)
	}
	h.Post("/generate", `{`)
	h.AwaitIdle()
	now := h.Admin.Counts()
	assert.Positive(t, h.Admin.Status().Workers[0].RequestRate)
	assert.Equal(t, uint64(4), now.Requests-counts.Requests)
	assert.Equal(t, uint64(27), now.PromptTokens)
	assert.Equal(t, uint64(24), now.HitTokens)
	assert.Equal(t, uint64(12), now.GeneratedTokens)
	assert.Len(t, now.ITL.Buckets, len(now.ITL.Bounds)+1)
	assert.Equal(t, uint64(1), now.Errors[history.Client])
	assert.Equal(t, int64(1), now.ReadyOnes)
	total := uint64(0)
	for _, n := range now.TTFT.Buckets {
		total += n
	}
	assert.Equal(t, uint64(3), total)
	assert.Len(t, now.TTFT.Buckets, len(now.TTFT.Bounds)+1)

	resp, _ := h.Do(http.MethodGet, h.Operator+"/history", "")
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	resp, _ = h.Do(http.MethodPost, h.Operator+"/history", "", "Authorization", "Bearer secret")
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	resp, _ = h.Do(http.MethodGet, h.Base+"/history", "", "Authorization", "Bearer secret")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, "clients have none")
	resp, got := h.Do(http.MethodGet, h.Operator+"/history", "", "Authorization", "Bearer secret")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var report map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(got), &report))
	assert.InDelta(t, 5, report["recent"]["step_seconds"], 0)
	assert.InDelta(t, 120, report["day"]["step_seconds"], 0)
	assert.Contains(t, report["now"], "hit_rate")
	assert.Empty(t, h.Admin.Status().Concerns, "of a router that serves")
}

// TestRefusedIsInStatus: a wrong key shows to the operator with the right one.
func TestRefusedIsInStatus(t *testing.T) {
	h := start(t, nil, withOperator("secret"))
	h.Do(http.MethodGet, h.Operator+"/status", "")
	h.Do(http.MethodGet, h.Operator+"/status", "", "Authorization", "Bearer wrong")
	h.Do(http.MethodGet, h.Operator+"/status", "", "Origin", "http://evil.example")
	st := h.Admin.Status()
	assert.Equal(t, operator.Counts{NoKey: 1, WrongKey: 1, Foreign: 1}, st.Refused)
	require.Len(t, st.Concerns, 2)
	assert.Equal(t, "no_workers", st.Concerns[0].Kind)
	assert.Equal(t, "operator_refused", st.Concerns[1].Kind)
}

// TestConsoleIsServed: its files need no key, and each has the policy that keeps a worker's name text.
func TestConsoleIsServed(t *testing.T) {
	h := start(t, nil, withOperator("secret"))
	for path, kind := range map[string]string{"/": "text/html", "/console": "text/html", "/console/console.js": "text/javascript", "/console/console.css": "text/css"} {
		resp, got := h.Do(http.MethodGet, h.Operator+path, "")
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
		assert.Contains(t, resp.Header.Get("Content-Type"), kind)
		assert.Equal(t, console.ContentSecurityPolicy, resp.Header.Get("Content-Security-Policy"))
		assert.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
		assert.NotEmpty(t, got)
		resp, _ = h.Do(http.MethodPost, h.Operator+path, "")
		assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, path)
		resp, _ = h.Do(http.MethodGet, h.Base+path, "")
		assert.Equal(t, http.StatusNotFound, resp.StatusCode, "the console is the operators'")
	}
}

// TestConsoleReadsTheAPI: each field that the page declares is one of the JSON, and is optional in
// the page where the JSON may lack it.
func TestConsoleReadsTheAPI(t *testing.T) {
	text, err := os.ReadFile("console/ui/src/api.ts")
	require.NoError(t, err)
	interfaces := regexp.MustCompile(`(?s)export interface (\w+) \{\n(.*?)\n\}`).FindAllStringSubmatch(string(text), -1)
	declared := map[string]string{}
	for _, m := range interfaces {
		declared[m[1]] = m[2]
	}
	seen := map[string]bool{}
	var compare func(name string, of reflect.Type)
	compare = func(name string, of reflect.Type) {
		if seen[name] {
			return
		}
		seen[name] = true
		fields := jsonFields(of)
		for _, m := range regexp.MustCompile(`(?m)^  (\w+)(\??): (.+);$`).FindAllStringSubmatch(declared[name], -1) {
			field, ok := fields[m[1]]
			if !assert.True(t, ok, "%s has no field %s in %s", name, m[1], of) {
				continue
			}
			assert.Equal(t, field.optional, m[2] == "?", "%s.%s: whether it may be absent", name, m[1])
			inner := strings.TrimSuffix(m[3], "[]")
			if _, ours := declared[inner]; ours {
				for field.of.Kind() == reflect.Slice || field.of.Kind() == reflect.Pointer {
					field.of = field.of.Elem()
				}
				compare(inner, field.of)
			}
		}
	}
	compare("Status", reflect.TypeFor[admin.Status]())
	compare("Explained", reflect.TypeFor[admin.Explained]())
	compare("RecentChoices", reflect.TypeFor[admin.RecentChoices]())
	compare("ExplainedChoice", reflect.TypeFor[admin.ExplainedChoice]())
	compare("HotPrefixes", reflect.TypeFor[admin.HotPrefixes]())
	compare("WhatIf", reflect.TypeFor[admin.WhatIf]())
	compare("Nodes", reflect.TypeFor[admin.Nodes]())
	compare("NodeLinks", reflect.TypeFor[admin.NodeLinks]())
	compare("Report", reflect.TypeFor[history.Report]())
	for name := range declared {
		assert.True(t, seen[name], "no type of the API is %s", name)
	}
}

type jsonField struct {
	of       reflect.Type
	optional bool
}

// jsonFields returns the members of a type's JSON.
func jsonFields(of reflect.Type) map[string]jsonField {
	fields := map[string]jsonField{}
	for _, f := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = jsonField{f.Type, strings.Contains(options, "omitempty")}
		}
	}
	return fields
}
