package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
)

func TestArticles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	cmd := newRoot()
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs([]string{"articles", "--json", file})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	assert.Contains(t, out.String(), "offline optimum")
	assert.Contains(t, out.String(), "engine only")
	assert.NotEmpty(t, progress.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var a policies.Articles
	require.NoError(t, json.Unmarshal(text, &a))
	assert.Len(t, a.Published, 5)
}
