package lint

import (
	"fmt"
	"strings"
	"unicode"
)

// Kind is the kind of a changing part, judged by its characters.
type Kind string

// The kinds of changing parts.
const (
	KindTime    Kind = "time"    // a date, a time of day
	KindID      Kind = "id"      // a long number, a UUID, a hash
	KindNumber  Kind = "number"  // a counter, a version
	KindName    Kind = "name"    // a few words: a user, a place, a setting
	KindText    Kind = "text"    // more: documents, history, a question
	KindOrder   Kind = "order"   // stable parts in another order
	KindUnknown Kind = "unknown" // token ids say nothing
)

// months are how English dates are known.
var months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

const (
	// idRun is how many hexadecimal digits in a row, hyphens apart, are an id and no number.
	idRun = 12
	// nameWords is the most words of a name or a setting.
	nameWords = 8
)

func kindOf(text string) Kind {
	text = strings.TrimSpace(text)
	words := strings.Fields(text)
	switch {
	case text == "":
		return KindOrder
	case len(words) > nameWords:
		return KindText
	case isTime(text, words):
		return KindTime
	case hexRun(text) >= idRun:
		return KindID
	case strings.IndexFunc(text, unicode.IsLetter) < 0 && strings.IndexFunc(text, unicode.IsDigit) >= 0:
		return KindNumber
	default:
		return KindName
	}
}

// isTime looks for 10:32 and 2026-11-21, of which the first part may have been cut off, and for
// months.
func isTime(text string, words []string) bool {
	for i := 1; i+1 < len(text); i++ {
		switch {
		case text[i] != ':' && text[i] != '-' && text[i] != '/':
		case isDigit(text[i-1]) && isDigit(text[i+1]) && hexRun(text) < idRun+4:
			return true
		}
	}
	for _, w := range words {
		for _, m := range months {
			if strings.HasPrefix(strings.ToLower(w), m) && strings.IndexFunc(text, unicode.IsDigit) >= 0 {
				return true
			}
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// hexRun is the longest run of hexadecimal digits, hyphens apart, that has a digit.
func hexRun(text string) (longest int) {
	n, digits := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case isDigit(c):
			n, digits = n+1, digits+1
		case c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
			n++
		case c == '-':
		default:
			n, digits = 0, 0
		}
		if digits > 0 {
			longest = max(longest, n)
		}
	}
	return longest
}

func (f *Finding) advise() string {
	where := fmt.Sprintf("in the part %q, %d bytes in", f.Part, f.Offset)
	if f.Part == "ids" {
		where = fmt.Sprintf("at token %.0f", f.Before)
	}
	rest := fmt.Sprintf("%.0f stable tokens stand behind it and are computed again each time.", f.StableAfter)
	var what string
	switch f.Kind {
	case KindTime:
		what = "A time changes " + where + "; " + rest + " Put the time at the end, into the last user message, or round it to the day."
	case KindID:
		what = "An id changes " + where + "; " + rest + " Leave it out of the prompt, or put it behind all that is the same."
	case KindNumber:
		what = "A number changes " + where + "; " + rest + " Put it behind all that is the same."
	case KindName:
		what = "A name or setting changes " + where + "; " + rest + " Put what is known of the user into a message of its own, behind system, tools and examples."
	case KindText:
		what = "Text of its own stands " + where + "; " + rest + " Put instructions, tools and examples first, and documents, history and the question last."
	case KindOrder:
		what = "Parts that are the same come in another order " + where + "; " + rest + " Write tools, examples and JSON keys in one order: sort them."
	default:
		what = "Something changes " + where + "; " + rest + " Put it behind all that is the same."
	}
	if f.Changes > 1 {
		what += fmt.Sprintf(" %d more changing parts stand before stable ones.", f.Changes-1)
	}
	return what
}
