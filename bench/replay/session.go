package replay

import (
	"fmt"
	"strconv"
	"strings"
)

// sessionField is the field of a request that names its session.
type sessionField struct {
	name string   // of a header; empty: none
	path []string // of the body
}

// parseSessionField reads a header's name, which has a capital letter or a hyphen, or a path of
// the body.
func parseSessionField(text string) (f sessionField, err error) {
	if text == "" {
		return f, nil
	}
	for _, c := range text {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("-_.", c):
		default:
			return f, fmt.Errorf("cannot send sessions in %q: %w: want a header such as X-Session-ID or a path such as metadata.user_id", text, ErrConfig)
		}
	}
	if strings.ToLower(text) != text || strings.Contains(text, "-") {
		f.name = text
		return f, nil
	}
	f.path = strings.Split(text, ".")
	return f, nil
}

// appendField appends the member of the body, and a comma.
func (f *sessionField) appendField(dst []byte, session string) []byte {
	if len(f.path) == 0 || session == "" {
		return dst
	}
	for i, key := range f.path {
		if i > 0 {
			dst = append(dst, '{')
		}
		dst = append(strconv.AppendQuote(dst, key), ':')
	}
	dst = strconv.AppendQuote(dst, session)
	for range f.path[1:] {
		dst = append(dst, '}')
	}
	return append(dst, ',')
}
