package cluster

import (
	"fmt"
	"strings"
)

// Kinds of records, as they begin keys of the bucket and stand in beats.
const (
	kindNode   = "node"
	kindRouter = "replica"
)

// key names a record.
type key struct{ kind, name string }

// String is the key in the bucket, and the end of subjects.
func (k key) String() string { return k.kind + "." + escape(k.name) }

// parseKey is the reverse of String.
func parseKey(s string) (key, error) {
	kind, name, _ := strings.Cut(s, ".")
	if kind != kindNode && kind != kindRouter {
		return key{}, fmt.Errorf("%w: key %q is of no known kind", errMalformed, s)
	}
	name, err := unescape(name)
	return key{kind, name}, err
}

// escape turns a name of any bytes into one token: bytes other than letters, digits, - and _
// become = and two hex digits. NATS allows = in keys and in subjects.
func escape(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// unescape is the reverse of escape; it refuses other tokens, so that a name has one key.
func unescape(token string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		switch c := token[i]; {
		case plain(c):
			b.WriteByte(c)
		case c == '=' && i+2 < len(token) && unhex(token[i+1]) >= 0 && unhex(token[i+2]) >= 0:
			b.WriteByte(byte(unhex(token[i+1])<<4 | unhex(token[i+2])))
			i += 2
		default:
			return "", fmt.Errorf("%w: key %q", errMalformed, token)
		}
	}
	if name := b.String(); name != "" && escape(name) == token {
		return name, nil
	}
	return "", fmt.Errorf("%w: key %q", errMalformed, token)
}

func unhex(c byte) int { return strings.IndexByte("0123456789ABCDEF", c) }
