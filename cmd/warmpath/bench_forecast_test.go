package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func benchForecast(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newBenchCommand()
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs(append([]string{"forecast"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestBenchForecast: the same requests are simulated and measured.
func TestBenchForecast(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	out, err := benchForecast(t, "--case", "bursts,speeds", "--duration", "4s", "--time-scale", "20", "--seeds", "1", "--json", file)
	require.NoError(t, err)
	require.Contains(t, out, "bursts")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var results []*forecastResult
	require.NoError(t, json.Unmarshal(text, &results))
	require.Len(t, results, 2)
	for _, r := range results {
		require.Positive(t, r.Requests)
		require.Equal(t, r.Requests, r.Live[0].Requests)
		require.Zero(t, r.Live[0].Errors, r.Live[0].FirstError)
		require.EqualValues(t, r.Forecast[0].PromptTokens, r.Live[0].PromptTokens)
		require.EqualValues(t, r.Forecast[0].OutputTokens, r.Live[0].OutputTokens)
	}
}

func TestBenchForecastRefuses(t *testing.T) {
	for _, args := range [][]string{{"--case", "nonsense"}, {"--trace", "nonsense=a"}, {"--seeds", "0"}, {"--time-scale", "0"}, {"--duration", "0s"}} {
		_, err := benchForecast(t, args...)
		require.Error(t, err, args)
	}
}

// TestForecastIsFreeOfTokens: eight times the tokens at eight times the speed in tokens take as long.
func TestForecastIsFreeOfTokens(t *testing.T) {
	c := &forecastCases[0]
	one, eight := (&forecastOptions{tokens: 1, timeScale: 1}).simulated(c), (&forecastOptions{tokens: 8, timeScale: 1}).simulated(c)
	require.Equal(t, one.CacheTokens*8, eight.CacheTokens)
	require.Equal(t, one.Service.PrefillBase, eight.Service.PrefillBase)
	require.InEpsilon(t, one.Service.PrefillTokensPerSecond*8, eight.Service.PrefillTokensPerSecond, 1e-9)
	require.InEpsilon(t, float64(one.Service.DecodeBase)/8, float64(eight.Service.DecodeBase), 0.01)
}
