package policies

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
)

// HTML writes the report as one page that needs nothing else: plots as inline SVG, the table,
// the advice.
func (r *Report) HTML(w io.Writer) error {
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		return err
	}
	text, _, _ := strings.Cut(table.String(), "\nRecommendation\n")
	err := page.Execute(w, map[string]any{
		"Name": r.Trace.Name, "Table": text, "Advice": r.Advice, "Bars": r.bars(), "Curves": r.curves(), "Hits": r.hitBars(), "Tokens": r.tokenBars(), "Users": r.Capacity.plots(),
	})
	if err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	return nil
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Policies on {{.Name}}</title>
<style>
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#6a737d;--paper:#fff;--line:#d0d7de}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#8b949e;--paper:#0d1117;--line:#30363d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1000px;margin:2em auto;padding:0 1em}
pre{overflow-x:auto;font-size:12px;border:1px solid var(--line);border-radius:6px;padding:1em}
svg{width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
svg .grid{stroke:var(--line);stroke-width:1}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}li{margin:.4em 0}
</style></head><body>
<h1>Routing policies on {{.Name}}</h1>
{{range .Users}}<h2>{{.Title}}</h2>{{.Plot}}{{end}}
<h2>Time to first token: mean, and p99 behind it</h2>{{.Bars}}
<h2>Share of requests answered within a time</h2>{{.Curves}}
<h2>Time between tokens: p95, and p99 behind it</h2>{{.Tokens}}
<h2>Prompt tokens found in a cache, and what no router can exceed</h2>{{.Hits}}
<h2>Numbers</h2><pre>{{.Table}}</pre>
{{if .Advice}}<h2>Recommendation</h2><ul>{{range .Advice}}<li>{{.}}</li>{{end}}</ul>{{end}}
</body></html>
`))

// Sizes of plots in SVG units.
const (
	plotWidth  = 960
	plotHeight = 360
	labelWidth = 170
	valueWidth = 150
	barHeight  = 22
)

// colour is a hue for the i-th of n lines, at a lightness that reads on white and on black.
func colour(i, n int) string { return fmt.Sprintf("hsl(%d 65%% 50%%)", i*360/max(n, 1)) }

// bars draws mean and p99 of every policy on one logarithmic axis: failing policies are a
// thousand times slower than good ones.
func (r *Report) bars() template.HTML {
	return r.pairs(seconds, func(x *Result) (front, behind time.Duration) { return x.TTFT.Mean, x.TTFT.P99 })
}

// tokenBars draws the time between tokens.
func (r *Report) tokenBars() template.HTML {
	return r.pairs(milliseconds, func(x *Result) (front, behind time.Duration) { return x.ITL.P95, x.ITL.P99 })
}

// pairs draws two values of every policy on one logarithmic axis.
func (r *Report) pairs(text func(time.Duration) string, of func(x *Result) (front, behind time.Duration)) template.HTML {
	low, high := math.Inf(1), 0.0
	for _, x := range r.Results {
		front, behind := of(x)
		low, high = min(low, front.Seconds()), max(high, front.Seconds(), behind.Seconds())
	}
	low = max(low/2, 1e-4)
	at := func(d time.Duration) float64 {
		return (plotWidth - labelWidth - valueWidth) * max(math.Log(max(d.Seconds(), low)/low)/math.Log(max(high/low, 1.01)), 0.003)
	}
	return r.rows(func(x *Result, b *strings.Builder, y int, fill string) string {
		front, behind := of(x)
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s" opacity=".35"/>`, labelWidth, y, at(behind), barHeight-6, fill)
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, labelWidth, y+3, at(front), barHeight-12, fill)
		return text(front) + " / " + text(behind)
	})
}

func (r *Report) hitBars() template.HTML {
	const width = plotWidth - labelWidth - valueWidth
	return r.rows(func(x *Result, b *strings.Builder, y int, fill string) string {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, labelWidth, y, width*x.Hits, barHeight-6, fill)
		fmt.Fprintf(b, `<line x1="%[1]f" x2="%[1]f" y1="%d" y2="%d" class="grid" style="stroke:currentColor"/>`,
			labelWidth+width*r.Trace.Bound, y-3, y+barHeight-3)
		return fmt.Sprintf("%.1f %%", 100*x.Hits)
	})
}

// rows draws one bar for each policy; draw returns the text behind it.
func (r *Report) rows(draw func(x *Result, b *strings.Builder, y int, fill string) string) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img">`, plotWidth, barHeight*len(r.Results)+8)
	for i, x := range r.Results {
		y := i*barHeight + 4
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+13, template.HTMLEscapeString(x.Policy))
		value := draw(x, &b, y, colour(i, len(r.Results)))
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" class="soft">%s</text>`, plotWidth, y+13, value)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // Built from numbers and escaped names.
}

// curves draws the distribution of the time to first token of every policy.
func (r *Report) curves() template.HTML {
	var b strings.Builder
	low, high := r.range99()
	x := func(d time.Duration) float64 {
		return 50 + (plotWidth-200)*math.Log(max(d.Seconds(), low)/low)/math.Log(high/low)
	}
	y := func(share float64) float64 { return plotHeight - 30 - (plotHeight-50)*share }
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img">`, plotWidth, max(plotHeight, 20*len(r.Results)+20))
	for share := 0.0; share <= 1; share += 0.25 {
		fmt.Fprintf(&b, `<line x1="50" x2="%d" y1="%.1f" y2="%.1f" class="grid"/><text x="44" y="%.1f" text-anchor="end">%.0f %%</text>`,
			plotWidth-150, y(share), y(share), y(share)+4, 100*share)
	}
	for s := math.Pow(10, math.Ceil(math.Log10(low))); s <= high; s *= 10 {
		at := x(time.Duration(s * 1e9))
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/><text x="%.1f" y="%d" text-anchor="middle">%g s</text>`,
			at, at, y(0), y(1), at, plotHeight-10, math.Round(s*1e4)/1e4)
	}
	for i, res := range r.Results {
		fill := colour(i, len(r.Results))
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, fill)
		for k := range 101 {
			if n := len(res.TTFTs); n > 0 {
				d := res.TTFTs[min(n-1, n*k/100)]
				fmt.Fprintf(&b, "%.1f,%.1f ", min(x(d), plotWidth-150), y(float64(k)/100))
			}
		}
		fmt.Fprintf(&b, `"/><rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`,
			plotWidth-135, 12+20*i, fill, plotWidth-118, 22+20*i, template.HTMLEscapeString(res.Policy))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // Built from numbers and escaped names.
}

// range99 is the axis of times: from the fastest to ten times the slowest good p99, so that one
// policy that fails does not press all others together.
func (r *Report) range99() (low, high float64) {
	low, high = math.Inf(1), math.Inf(1)
	for _, x := range r.Results {
		if len(x.TTFTs) > 0 {
			low = min(low, x.TTFTs[0].Seconds())
			high = min(high, x.TTFT.P99.Seconds())
		}
	}
	if math.IsInf(low, 1) {
		return 0.001, 1
	}
	return max(low, 1e-4), max(high*10, max(low, 1e-4)*10)
}
