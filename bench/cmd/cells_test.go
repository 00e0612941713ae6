package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
)

// cells runs bench cells on the recorded sessions of package trace's tests.
func cells(t *testing.T, args ...string) (out, progress string, err error) {
	t.Helper()
	cmd := newRoot()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"cells", "--sessions", "../trace/testdata/sessions.jsonl"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestCells(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cells.jsonl")
	out, progress, err := cells(t, "--only", "^agents, open, pool 0.2$", "--policy", "kv,round-robin", "--shares", "0.3", "--json", file)
	require.NoError(t, err)
	assert.Contains(t, out, "agents, open, pool 0.2")
	assert.Contains(t, out, "cells within 1.05")
	assert.Contains(t, progress, "of 1 scenes")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 1)
	for _, line := range lines {
		var c policies.Cell
		require.NoError(t, json.Unmarshal([]byte(line), &c))
		assert.Equal(t, "round-robin", c.BestMean)
		assert.Positive(t, c.Mean)
		assert.Len(t, c.Results, 2)
	}
}

func TestCellsList(t *testing.T) {
	all, _, err := cells(t, "--list")
	require.NoError(t, err)
	quick, _, err := cells(t, "--list", "--quick")
	require.NoError(t, err)
	assert.Contains(t, all, "agents, closed, pool 0.2, host tier, pairs\n")
	assert.Less(t, strings.Count(quick, "\n"), strings.Count(all, "\n")/2)
}

func TestCellsRefuse(t *testing.T) {
	for _, args := range [][]string{
		{"--only", "no such scene"},
		{"--only", "("},
		{"--policy", "lmetric"},
		{"--policy", "kv,best"},
		{"--cores", "0"},
		{"--trace", "no such file"},
		{"--sessions", "no such file"},
	} {
		_, _, err := cells(t, args...)
		assert.Error(t, err, strings.Join(args, " "))
	}
}
