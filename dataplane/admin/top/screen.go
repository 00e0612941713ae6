package top

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/admin/history"
)

// looks are the mark and the colours of each severity.
var looks = map[admin.Severity]struct {
	mark string
	look style
}{admin.Fault: {"!! ", red}, admin.Warning: {"!  ", yellow}, admin.Note: {"-  ", plain}}

// draw draws a concern, then its advice, in at most so many lines; 0 is no limit.
func draw(c *admin.Concern, width, most int) (lines []string) {
	const indent = "   "
	since, with := "", looks[c.Severity]
	if c.SinceSeconds > 0 {
		since = "  for " + age(c.SinceSeconds)
	}
	if width <= 0 {
		return []string{with.mark + clean(c.Text) + since, indent + clean(c.Advice)}
	}
	mark, room := with.mark, max(width-len(indent)-ansi.StringWidth(since), 10)
	for _, part := range wrap(clean(c.Text), room, most) {
		lines = append(lines, cut(with.look.paint(mark+left(part, room))+since, width))
		mark, since = indent, ""
	}
	if left := most - len(lines); left > 0 && c.Advice != "" {
		for _, part := range wrap(clean(c.Advice), max(width-len(indent), 10), left) {
			lines = append(lines, cut(faint.paint(indent+part), width))
		}
	}
	return lines
}

// header is the first line: which router, and how many of its workers serve. Parts that do not fit
// are left out.
func (m *model) header(width int) string {
	parts, at, look := []string{"warmpath", clean(strings.TrimPrefix(m.router, "http://"))}, "", inverse
	if m.known {
		st := &m.reading.Status
		ready := 0
		for i := range st.Workers {
			if st.Workers[i].State == "ready" {
				ready++
			}
		}
		if ready == 0 {
			look = alarm
		}
		parts = append(parts, fmt.Sprintf("%d of %s ready", ready, admin.Plural(len(st.Workers), "worker")), "up "+age(st.UptimeSeconds), "policy "+clean(st.Policy))
		at = clock(m.reading.At)
	}
	text := fitting(parts, width-len(at)-2)
	if width <= 0 {
		return text + "  " + at
	}
	return look.paint(cut(left(text, width-len(at))+at, width))
}

// fitting joins the parts that fit into a width; 0 or less is no limit.
func fitting(parts []string, width int) (text string) {
	for i, part := range parts {
		if i > 0 {
			part = "  " + part
		}
		if width <= 0 || ansi.StringWidth(text+part) <= width {
			text += part
		}
	}
	return text
}

// trouble says why there is no new reading.
func (m *model) trouble(width int) (lines []string) {
	if m.failed == nil {
		return nil
	}
	text := fmt.Sprintf("%s. Trying again every %s", clean(m.failed.Error()), m.every)
	if m.known {
		text += fmt.Sprintf("; below is the state of %s, %s ago", clock(m.reading.At), age(m.now.Sub(m.reading.At).Seconds()))
	}
	for _, line := range wrap(text+".", width, 5) {
		lines = append(lines, red.paint(line))
	}
	return lines
}

// attention lists the concerns, in at most so many lines; 0 is no limit.
func (m *model) attention(width, most int) (lines []string) {
	list := m.reading.Status.Concerns
	if len(list) == 0 {
		return []string{green.paint(cut("Nothing needs attention.", width))}
	}
	for i := range list {
		if most > 0 && len(list) > most && len(lines) == most-1 {
			return append(lines, cut(fmt.Sprintf("   and %d more", len(list)-i), width))
		}
		// Where there are few, they have room for more lines.
		lines = append(lines, draw(&list[i], width, max(1, most-len(lines)-(len(list)-i-1)))...)
	}
	return lines
}

// figure is a value of now with its past.
type figure struct {
	name, value string
	past        []history.Value
	look        style
}

func (m *model) figures() []figure {
	st, now, past := &m.reading.Status, &m.reading.History.Now, &m.reading.History.Recent
	if m.day {
		past = &m.reading.History.Day
	}
	queue := "no queue"
	if q := st.Queue; q != nil {
		if queue = "empty"; q.Waiting > 0 {
			queue = fmt.Sprintf("%d, oldest %s", q.Waiting, seconds(q.OldestSeconds))
		}
	}
	hit := percent(now.HitRate)
	if finite(now.ExpectedRate) {
		hit += ", expected " + percent(now.ExpectedRate)
	}
	saved := unknown
	if now.SavedSeconds > 0 {
		saved = seconds(now.SavedSeconds) + " in 15 min"
	}
	all := make([]history.Value, len(past.At))
	for i := range all {
		all[i] = past.Router[i] + past.Worker[i] + past.Cut[i]
	}
	warn := func(yes bool, look style) style {
		if yes {
			return look
		}
		return plain
	}
	return []figure{
		{"Requests", fmt.Sprintf("%s/s, %s in flight", short(now.Requests), short(st.InFlight)), past.Requests, plain},
		{"Hit rate", hit, past.HitRate, plain},
		{"TTFT p50", quantiles(now.TTFT50, now.TTFT99), past.TTFT99, plain},
		{"Saved", saved, past.SavedSeconds, plain},
		{"ITL p50", quantiles(now.ITL50, now.ITL99), past.ITL99, plain},
		{"Queue", queue, past.Waiting, warn(st.Queue != nil && st.Queue.Waiting > 0, yellow)},
		{"Tokens/s", fmt.Sprintf("%s in, %s out", short(now.PromptTokens), short(now.GeneratedTokens)), past.GeneratedTokens, plain},
		{"Errors", short(now.Errors) + " in 5 min", all, warn(now.Errors > 0, red)},
	}
}

func quantiles(p50, p99 history.Value) string { return seconds(p50) + ", p99 " + seconds(p99) }

// chart draws figures side by side; without a width one below the other, with no past.
func (m *model) chart(width int) (lines []string) {
	const name, value, gap = 9, 22, 2
	all := m.figures()
	if width <= 0 {
		for _, f := range all {
			lines = append(lines, left(f.name, name)+" "+f.value)
		}
		return lines
	}
	abreast := 2
	if width >= 160 {
		abreast = 4
	}
	cell := (width - gap*(abreast-1)) / abreast
	for i := 0; i < len(all); i += abreast {
		var cells []string
		for _, f := range all[i:min(i+abreast, len(all))] {
			text := faint.paint(left(f.name, name)) + f.look.paint(left(f.value, min(value, cell-name)))
			if room := cell - name - value - 1; room > 0 {
				text += " " + cyan.paint(spark(f.past, room))
			}
			cells = append(cells, left(text, cell))
		}
		lines = append(lines, cut(strings.Join(cells, strings.Repeat(" ", gap)), width))
	}
	return lines
}

var (
	tableKeys = []string{"q quit", "↑↓ move", "enter open", "/ filter", "s sort", "r reverse", "d day/15 min"}
	pageKeys  = []string{"q quit", "esc back", "↑↓ scroll"}
)

// footer is the last line: the keys, or the filter as it is typed.
func (m *model) footer(width int) string {
	keys := tableKeys
	switch {
	case m.typing:
		return cut("filter: "+clean(m.filter)+"_   enter keeps it, esc clears it", width)
	case !m.known:
		keys = tableKeys[:1]
	case m.open != "":
		keys = pageKeys
	}
	return faint.paint(cut(fitting(keys, width), width))
}

// screen draws all, in the size of the terminal.
func (m *model) screen() string {
	lines := append([]string{m.header(m.width)}, m.trouble(m.width)...)
	switch {
	case !m.known && m.failed == nil:
		lines = append(lines, "Asking "+clean(m.router)+" …")
	case !m.known:
	case m.open != "":
		lines = append(lines, m.opened(m.height-len(lines)-1)...)
	default:
		lines = append(lines, m.attention(m.width, max(3, m.height/5))...)
		lines = append(lines, m.chart(m.width)...)
		rows := m.rows()
		lines = append(lines, faint.paint(cut(m.caption(len(rows)), m.width)))
		height := max(m.height-len(lines)-2, 1)
		m.settle(rows, height)
		lines = append(lines, table(rows, m.first, height, m.cursor, m.width)...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:max(m.height-1, 0)], m.footer(m.width)), "\n")
}

// opened draws the page of the open worker from the line to which it is scrolled.
func (m *model) opened(height int) []string {
	var w *admin.WorkerStatus
	for i := range m.reading.Status.Workers {
		if m.reading.Status.Workers[i].ID == m.open {
			w = &m.reading.Status.Workers[i]
		}
	}
	title := strong.paint(cut(clean(m.open), m.width))
	if w == nil {
		return []string{title, "The router does not have this worker any more."}
	}
	lines := append([]string{title}, m.page(w, m.width)...)
	m.scroll = max(0, min(m.scroll, len(lines)-height))
	return lines[m.scroll:min(len(lines), m.scroll+max(height, 0))]
}
