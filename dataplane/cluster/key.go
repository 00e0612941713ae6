package cluster

import (
	"fmt"
	"net/url"
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
func escape(name string) string { return toToken.Replace(url.QueryEscape(name)) }

// A query has + for a space, and leaves . and ~ as they are.
var (
	toToken   = strings.NewReplacer("%", "=", "+", "=20", ".", "=2E", "~", "=7E")
	fromToken = strings.NewReplacer("=", "%", "%", "%25", "+", "%2B")
)

// unescape is the reverse of escape; it refuses other tokens, so that a name has one key.
func unescape(token string) (string, error) {
	name, err := url.QueryUnescape(fromToken.Replace(token))
	if err != nil || name == "" || escape(name) != token {
		return "", fmt.Errorf("%w: key %q", errMalformed, token)
	}
	return name, nil
}
