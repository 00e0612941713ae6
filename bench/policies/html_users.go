package policies

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// userPlot is a plot of a value over the number of users.
type userPlot struct {
	Title string
	Plot  template.HTML
}

// plots draws the probes of a search for users; a report without a search has none.
func (c *Capacity) plots() []userPlot {
	if c == nil {
		return nil
	}
	plots := []userPlot{
		{fmt.Sprintf("Users against p95 of TTFT; a mark is the most that keep %v", c.TTFT), c.plot(func(p *Probe) time.Duration { return p.TTFT }, c.TTFT)},
		{fmt.Sprintf("Users against p95 of ITL; a mark is the most that keep %v", c.ITL), c.plot(func(p *Probe) time.Duration { return p.ITL }, c.ITL)},
	}
	if c.TPOT > 0 {
		plots = append(plots, userPlot{fmt.Sprintf("Users against p95 of TPOT; a mark is the most that keep %v", c.TPOT), c.plot(func(p *Probe) time.Duration { return p.TPOT }, c.TPOT)})
	}
	return plots
}

// Room of a plot at its left for the axis, and at its right for the legend.
const (
	axisWidth   = 60
	legendWidth = 160
)

// plot draws a value of every policy over its users, on a logarithmic axis from a tenth to ten
// times the objective.
func (c *Capacity) plot(value func(*Probe) time.Duration, objective time.Duration) template.HTML {
	most, low, high := 1, objective.Seconds()/10, objective.Seconds()*10
	for _, p := range c.Policies {
		most = max(most, min(p.Never*3/2, p.All[len(p.All)-1].Users))
	}
	x := func(users int) float64 {
		return axisWidth + (plotWidth-axisWidth-legendWidth)*min(1, float64(users)/float64(most))
	}
	y := func(s float64) float64 {
		share := math.Log(min(max(s, low), high)/low) / math.Log(high/low)
		return plotHeight - 30 - (plotHeight-50)*share
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img">`, plotWidth, max(plotHeight, 20*len(c.Policies)+20))
	for _, s := range []float64{low, objective.Seconds(), high} {
		dash := ""
		if s == objective.Seconds() {
			dash = ` stroke-dasharray="6 4" style="stroke:currentColor"`
		}
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" class="grid"%s/><text x="%d" y="%.1f" text-anchor="end">%v</text>`,
			axisWidth, plotWidth-legendWidth, y(s), y(s), dash, axisWidth-6, y(s)+4, time.Duration(math.Round(s*1e6)*1e3))
	}
	for k := range 5 {
		users := most * k / 4
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/><text x="%.1f" y="%d" text-anchor="middle">%d</text>`,
			x(users), x(users), y(low), y(high), x(users), plotHeight-10, users)
	}
	for i := range c.Policies {
		p, fill := &c.Policies[i], colour(i, len(c.Policies))
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, fill)
		for k := range p.All {
			if one := &p.All[k]; one.Users <= most {
				fmt.Fprintf(&b, "%.1f,%.1f ", x(one.Users), y(value(one).Seconds()))
			}
		}
		b.WriteString(`"/>`)
		if p.Users > 0 {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, x(p.Users), y(value(&p.At).Seconds()), fill)
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`,
			plotWidth-legendWidth+15, 12+20*i, fill, plotWidth-legendWidth+32, 22+20*i, template.HTMLEscapeString(fmt.Sprintf("%s: %d", p.Policy, p.Users)))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // Built from numbers and escaped names.
}
