package warmpath_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// alertFile is a file of Prometheus' rules.
type alertFile struct {
	Groups []struct {
		Name  string
		Rules []alertRule
	}
}

// alertRule is one rule. Another field is a mistake.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

var (
	alertWord     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	alertSelector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	alertMatcher  = regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"[^"]*"\s*$`)
	alertGrouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	alertQuoted   = regexp.MustCompile(`"[^"]*"`)
	alertRange    = regexp.MustCompile(`\[\d+[smhd]\]`)
	alertTemplate = regexp.MustCompile(`\{\{ \$labels\.([a-zA-Z_]+) \}\}`)
	alertTime     = regexp.MustCompile(`^\d+[smh]$`)
	// alertFunctions are the words of PromQL that the rules use.
	alertFunctions = []string{"sum", "max", "rate", "increase", "histogram_quantile", "by", "or", "and"}
)

// knownSeries are the series of docs/reference/metrics.md, and those that each process has.
func knownSeries(t *testing.T) map[string]metric {
	t.Helper()
	known := map[string]metric{
		"up":                            {name: "up", kind: "gauge", labels: []string{"job"}},
		"process_cpu_seconds_total":     {name: "process_cpu_seconds_total", kind: "counter"},
		"process_resident_memory_bytes": {name: "process_resident_memory_bytes", kind: "gauge"},
	}
	for _, group := range metricFolders {
		for _, m := range allMetrics(t, group.folders) {
			if m.kind == "histogram" {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					known[m.name+suffix] = metric{m.name + suffix, "counter", m.help, append(slices.Clip(m.labels), "le")}
				}
				continue
			}
			known[m.name] = m
		}
	}
	return known
}

// TestAlerts holds each rule to the metrics of docs/reference/metrics.md: their names, labels and types.
func TestAlerts(t *testing.T) {
	known := knownSeries(t)
	f, err := os.Open("alerts/warmpath.yaml")
	require.NoError(t, err)
	defer f.Close()
	var file alertFile
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))
	seen := map[string]bool{}
	for _, group := range file.Groups {
		require.NotEmpty(t, group.Rules, group.Name)
		for _, rule := range group.Rules {
			t.Run(rule.Alert, func(t *testing.T) {
				assert.False(t, seen[rule.Alert], "its name is another rule's")
				seen[rule.Alert] = true
				checkAlert(t, &rule, known)
			})
		}
	}
	require.Greater(t, len(seen), 20)
}

func checkAlert(t *testing.T, rule *alertRule, known map[string]metric) {
	t.Helper()
	assert.Regexp(t, `^Warmpath[A-Z]`, rule.Alert)
	assert.Contains(t, []string{"page", "ticket"}, rule.Labels["severity"])
	if rule.For != "" {
		assert.Regexp(t, alertTime, rule.For)
	}
	for _, key := range []string{"summary", "do"} {
		assert.Regexp(t, `^[A-Z].*\.$`, rule.Annotations[key], "%s is a sentence", key)
	}
	labels := checkExpr(t, rule.Expr, known)
	for _, text := range rule.Annotations {
		for _, found := range alertTemplate.FindAllStringSubmatch(text, -1) {
			assert.Contains(t, labels, found[1], "in %q", text)
		}
		for _, word := range regexp.MustCompile(`\bwarmpath_[a-z_]+`).FindAllString(text, -1) {
			_, isMetric := known[word]
			_, isHistogram := known[word+"_sum"]
			assert.True(t, isMetric || isHistogram, "%s in %q", word, text)
		}
	}
}

// checkExpr holds an expression to the series that there are, and returns the labels that it may name.
func checkExpr(t *testing.T, expr string, known map[string]metric) []string {
	t.Helper()
	labels := []string{"instance", "job", "le"} // of every series, and of histograms
	bare := alertRange.ReplaceAllString(alertQuoted.ReplaceAllString(expr, `""`), "")
	assert.Equal(t, strings.Count(bare, "("), strings.Count(bare, ")"), "parentheses")
	assert.NotContains(t, bare, "[", "a range is a number and a unit")
	for _, found := range alertSelector.FindAllStringSubmatch(expr, -1) {
		for matcher := range strings.SplitSeq(found[2], ",") {
			parts := alertMatcher.FindStringSubmatch(matcher)
			require.NotNil(t, parts, "matcher %s", matcher)
			assert.Contains(t, append(slices.Clip(known[found[1]].labels), labels...), parts[1], "a label of %s", found[1])
		}
	}
	rest := alertGrouping.ReplaceAllString(alertSelector.ReplaceAllString(bare, "$1"), "by")
	metrics := 0
	for _, at := range alertWord.FindAllStringIndex(rest, -1) {
		word := rest[at[0]:at[1]]
		if slices.Contains(alertFunctions, word) {
			continue
		}
		m, ok := known[word]
		require.True(t, ok, "%s is no metric of docs/reference/metrics.md", word)
		metrics++
		labels = append(labels, m.labels...)
		before := strings.TrimRight(rest[:at[0]], " ")
		counted := strings.HasSuffix(before, "rate(") || strings.HasSuffix(before, "increase(")
		if m.kind == "counter" && word != "warmpath_node_records_total" { // of which only its presence counts
			assert.True(t, counted, "%s is a counter: take its rate", word)
		} else {
			assert.False(t, counted, "%s is a gauge", word)
		}
	}
	assert.Positive(t, metrics)
	for _, found := range alertGrouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(found[1], ",") {
			assert.Contains(t, labels, strings.TrimSpace(label), "grouped by")
		}
	}
	return labels
}
