package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

func (h *harness) get(path string, into any) (status int, body string) {
	h.t.Helper()
	resp, got := h.Do(http.MethodGet, h.Operator+path, "")
	if resp.StatusCode == http.StatusOK {
		require.NoError(h.t, json.Unmarshal([]byte(got), into), got)
	}
	return resp.StatusCode, got
}

// TestRecentChoices: a request's choice is listed under its name with its reason, and has the
// candidates and costs that /explain had for it before.
func TestRecentChoices(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	for _, w := range []*fakeWorker{a, b} {
		w.Answers("/generate", idsReply)
	}
	h := start(t, []*fakeWorker{a, b})
	var list admin.RecentChoices
	_, body := h.get("/choices", &list)
	require.Equal(t, "{\"choices\":[]}\n", body, "before the first request")
	before, _ := h.explain("", idsBody)
	resp, _ := h.Do(http.MethodPost, h.Base+"/generate", idsBody, "X-Request-Id", "<b>mine</b>")
	require.Equal(t, http.StatusOK, resp.StatusCode)

	status, _ := h.get("/choices", &list)
	require.Equal(t, http.StatusOK, status)
	require.Len(t, list.Choices, 1)
	c := list.Choices[0]
	require.Equal(t, resp.Header.Get("X-Warmpath-Worker"), c.Worker)
	require.Equal(t, []any{"<b>mine</b>", "tiny", "kv", 9, true, 2}, []any{c.Request, c.Model, c.Policy, c.Tokens, c.Exact, c.Candidates})
	require.NotEmpty(t, c.Why)
	require.False(t, c.At.IsZero())

	var one admin.ExplainedChoice
	status, _ = h.get(fmt.Sprintf("/choices?number=%d", c.Number), &one)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, c, one.Choice)
	require.Equal(t, c.Worker, one.Explained.Winner)
	require.Len(t, one.Explained.Ranks, 2)
	for i, r := range one.Explained.Ranks {
		require.Equal(t, before.Ranks[i].ID, r.ID)
		require.Equal(t, before.Ranks[i].Overlap, r.Overlap)
		require.Equal(t, before.Ranks[i].Cost.Cost, r.Cost.Cost)
		require.Empty(t, r.State, "it may have changed since")
	}
	status, body = h.get("/choices?number=77", &one)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "later ones have taken its place")
	status, _ = h.get("/choices?number=-1", &one)
	require.Equal(t, http.StatusBadRequest, status)
}

// TestWhatIfOfChoices: each policy has all choices, and the one in force is named as what was made.
func TestWhatIfOfChoices(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	for _, w := range []*fakeWorker{a, b} {
		w.Answers("/generate", idsReply)
	}
	h := start(t, []*fakeWorker{a, b})
	for range 4 {
		h.Post("/generate", idsBody)
	}
	var got admin.WhatIf
	status, _ := h.get("/what_if", &got)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []any{4, int64(36), 0}, []any{got.Choices, got.Tokens, got.LeftOut})
	names := []string{}
	for _, p := range got.Policies {
		names = append(names, p.Policy)
		require.Equal(t, p.Policy == "kv", p.Made)
		require.Equal(t, got.Tokens, p.Cached+p.Left)
	}
	require.Equal(t, []string{"kv", "round-robin", "least-load", "most-overlap"}, names)
	require.Equal(t, 4, got.Policies[0].Same)
	require.Equal(t, []int{2, 2}, []int{got.Policies[1].Ranks, got.Policies[1].Most})
}

func TestRecentChoicesOfPairs(t *testing.T) {
	p, d := newPair(t, 1, 2)
	h := start(t, append(p, d...))
	resp, _ := h.Post("/generate", idsBody)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var list admin.RecentChoices
	h.get("/choices", &list)
	require.Len(t, list.Choices, 1)
	var one admin.ExplainedChoice
	h.get(fmt.Sprintf("/choices?number=%d", list.Choices[0].Number), &one)
	require.Equal(t, p[0].URL, one.Choice.Worker)
	require.NotEmpty(t, one.Choice.DecodeWhy)
	require.Equal(t, one.Choice.Decode, one.Explained.Pair.Decode)
	require.Len(t, one.Explained.Pair.Decodes, 2)
}
