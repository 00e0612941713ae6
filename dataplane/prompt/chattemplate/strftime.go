package chattemplate

import (
	"fmt"
	"strings"
	"time"
)

// strftimeFunc is strftime_now of transformers: datetime.now().strftime(format), in the C locale.
func strftimeFunc(s *state, a args) value {
	a, ok := s.bind(a, "strftime_now", 1, []string{"format"})
	if !ok {
		return undefValue
	}
	format, ok := stringArg(s, a)
	if !ok || !s.step(len(format)/8) {
		return undefValue
	}
	text, ok := strftime(s.now(), format)
	if !ok {
		return s.unsupported("strftime_now of " + format)
	}
	return strValue(text)
}

// strftime formats a time. It reports false for a directive that is not known here, or one that
// depends on more than the time.
func strftime(t time.Time, format string) (string, bool) {
	var b strings.Builder
	for {
		at := strings.IndexByte(format, '%')
		if at < 0 || at+1 == len(format) {
			if at >= 0 {
				return "", false
			}
			b.WriteString(format)
			return b.String(), true
		}
		b.WriteString(format[:at])
		verb := format[at+1]
		format = format[at+2:]
		if layout, ok := layouts[verb]; ok {
			b.WriteString(t.Format(layout))
			continue
		}
		switch verb {
		case 'j':
			fmt.Fprintf(&b, "%03d", t.YearDay())
		case 'w':
			fmt.Fprintf(&b, "%d", t.Weekday())
		case 'f':
			fmt.Fprintf(&b, "%06d", t.Nanosecond()/1000)
		case '%':
			b.WriteByte('%')
		default:
			return "", false
		}
	}
}

// layouts are the directives that Go's own layouts express.
var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
}
