package warmpath_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is Grafana's form of one, as far as it is checked here.
type dashboard struct {
	UID    string
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ H, W, X, Y int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ RefID, Expr, LegendFormat string }
	}
}

var (
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
	// grafanaWords are what Grafana fills in before Prometheus sees an expression.
	grafanaWords = strings.NewReplacer("$__rate_interval", "5m", "$instance", "x")
)

// TestDashboard holds each panel to the metrics of docs/reference/metrics.md as TestAlerts does the
// rules, and to its place: panels do not cover each other.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("deploy/grafana/warmpath.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.Equal(t, "warmpath", d.UID)
	known, ids, covered, graphs := knownSeries(t), map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "the id of %s is another panel's", p.Title)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Less(t, x, 24, p.Title)
				require.Empty(t, covered[[2]int{x, y}], "%s covers it", p.Title)
				covered[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		graphs++
		t.Run(p.Title, func(t *testing.T) {
			assert.Regexp(t, `^[A-Z].*\.$`, p.Description, "a sentence")
			assert.NotEmpty(t, p.FieldConfig.Defaults.Unit)
			require.NotEmpty(t, p.Targets)
			for _, target := range p.Targets {
				labels := checkExpr(t, grafanaWords.Replace(target.Expr), known)
				for _, found := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					assert.Contains(t, labels, found[1], "in the legend of %s", target.Expr)
				}
			}
		})
	}
	require.Greater(t, graphs, 15)
}
