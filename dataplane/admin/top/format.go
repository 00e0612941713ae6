package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/warmpath/warmpath/dataplane/admin/history"
)

// unknown stands for a value that is not known, in every column.
const unknown = "-"

// style is a sequence of SGR parameters; "" is plain.
type style string

const (
	plain   style = ""
	strong  style = "1"
	faint   style = "2"
	inverse style = "7"
	alarm   style = "1;7;31"
	red     style = "1;31"
	yellow  style = "33"
	green   style = "32"
	cyan    style = "36"
)

func (s style) paint(text string) string {
	if s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// clean makes text of others harmless: a worker's error could move the cursor.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return visible(r)
	}, strings.ToValidUTF8(text, "?"))
}

// cut ends a line at a width; 0 is no limit.
func cut(text string, width int) string {
	if width <= 0 {
		return text
	}
	return ansi.Truncate(text, width, "…")
}

// left and right pad or cut a cell.
func left(text string, width int) string {
	text = cut(text, max(width, 1))
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

func right(text string, width int) string {
	text = cut(text, max(width, 1))
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}

// tail pads a cell, or cuts its beginning: the names of workers differ at their ends.
func tail(text string, width int) string {
	whole := text
	for n := ansi.StringWidth(whole) - width + 1; ansi.StringWidth(text) > width; n++ {
		text = ansi.TruncateLeft(whole, n, "…") // no half of a wide character goes
	}
	return left(text, width)
}

// wrap breaks text between words into lines of a width, at most so many.
func wrap(text string, width, most int) []string {
	if width <= 0 {
		return []string{text}
	}
	const hyphen = "\u2011" // one at which ansi does not break: flags begin with two
	lines := strings.Split(ansi.Wrap(strings.ReplaceAll(text, "-", hyphen), width, ""), "\n")
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], hyphen, "-")
	}
	if len(lines) > most {
		lines = append(lines[:most-1], cut(strings.Join(lines[most-1:], " "), width))
	}
	return lines
}

// short writes a number in at most five columns.
func short[N ~float64 | int | int64 | uint64](of N) string {
	v := float64(of)
	if !finite(v) {
		return unknown
	}
	units := []string{"", "k", "M", "G", "T"}
	i := 0
	for ; math.Abs(v) >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	if v == math.Trunc(v) || math.Abs(v) >= 99.95 {
		return fmt.Sprintf("%.0f%s", v, units[i])
	}
	return fmt.Sprintf("%.1f%s", v, units[i])
}

func percent[N ~float64](v N) string {
	if !finite(v) {
		return unknown
	}
	return fmt.Sprintf("%.0f%%", 100*float64(v))
}

// seconds writes how long something takes.
func seconds[N ~float64](of N) string {
	v := float64(of)
	switch size := math.Abs(v); {
	case !finite(v):
		return unknown
	case size == 0:
		return "0 s"
	case size < 0.0095:
		return fmt.Sprintf("%.1f ms", v*1e3)
	case size < 0.9995:
		return fmt.Sprintf("%.0f ms", v*1e3)
	case size < 9.995:
		return fmt.Sprintf("%.2f s", v)
	case size < 99.95:
		return fmt.Sprintf("%.1f s", v)
	}
	return age(v)
}

// age writes a time since something, in one unit or two.
func age(v float64) string {
	if !finite(v) {
		return unknown
	}
	s := int(max(0, v))
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}

// brief is age in at most four columns.
func brief(v float64) string {
	s := int(max(0, v))
	switch {
	case s < 120:
		return fmt.Sprintf("%ds", s)
	case s < 7200:
		return fmt.Sprintf("%dm", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%dh", s/3600)
	}
	return fmt.Sprintf("%dd", s/86400)
}

func clock(t time.Time) string { return t.Format(time.TimeOnly) }

func finite[N ~float64](v N) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// spark draws a column of a history in so many cells, its largest value at full height. A cell is
// empty where no value of its time is known.
func spark(column []history.Value, width int) string {
	const bars = "▁▂▃▄▅▆▇█"
	if width <= 0 || len(column) == 0 {
		return ""
	}
	cells := make([]float64, min(width, len(column)))
	top := 0.0
	for i := range cells {
		cells[i] = mean(column[i*len(column)/len(cells) : (i+1)*len(column)/len(cells)])
		if finite(cells[i]) {
			top = max(top, cells[i])
		}
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", width-len(cells)))
	for _, v := range cells {
		if !finite(v) {
			b.WriteByte(' ')
			continue
		}
		at := 0
		if top > 0 {
			at = int(math.Round(max(v, 0) / top * 7))
		}
		b.WriteRune([]rune(bars)[at])
	}
	return b.String()
}

// mean is of the known values; NaN where there are none.
func mean(column []history.Value) float64 {
	sum, n := 0.0, 0
	for _, v := range column {
		if finite(v) {
			sum, n = sum+float64(v), n+1
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}
