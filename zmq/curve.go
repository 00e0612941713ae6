package zmq

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// EnvCurve names the environment variable with the path of a key file. If it is set, every
// subscription and replay uses CURVE, by libzmq: the binary must be built with -tags libzmq.
// The file has three lines, "server-key", "public-key" and "secret-key", each followed by a
// space and 40 characters of Z85: the publishers' public key and our own pair. It is read for
// each connection, so that new keys need no restart.
const EnvCurve = "WARMPATH_CURVE_KEYS"

// ErrCurve is returned where CURVE is configured and cannot be used.
var ErrCurve = errors.New("zmq: CURVE")

// Curve describes the encryption that EnvCurve asks for, or returns "" where it asks for none.
func Curve() (string, error) {
	path := os.Getenv(EnvCurve)
	if path == "" {
		return "", nil
	}
	library, err := curveLibrary()
	if err != nil {
		return "", err
	}
	if _, err := readCurveKeys(path); err != nil {
		return "", err
	}
	return library + ", keys from " + path, nil
}

// curveKeys are Z85 texts.
type curveKeys struct {
	server         string // The publishers' public key.
	public, secret string // Our own.
}

// z85KeySize is the length of a key of 32 bytes in Z85.
const z85KeySize = 40

// readCurveKeys reads a key file. Errors never contain a key.
func readCurveKeys(path string) (curveKeys, error) {
	var k curveKeys
	file, err := os.Open(path)
	if err != nil {
		return k, fmt.Errorf("%w: cannot read keys: %w", ErrCurve, err)
	}
	defer file.Close()
	fields := map[string]*string{"server-key": &k.server, "public-key": &k.public, "secret-key": &k.secret}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		name, key, _ := strings.Cut(text, " ")
		field := fields[name]
		if key = strings.TrimSpace(key); field == nil || *field != "" || len(key) != z85KeySize {
			return k, fmt.Errorf("%w: line %d of %s: want server-key, public-key or secret-key once, "+
				"each with %d characters of Z85", ErrCurve, n, path, z85KeySize)
		}
		*field = key
	}
	if err := lines.Err(); err != nil {
		return k, fmt.Errorf("%w: cannot read keys: %w", ErrCurve, err)
	}
	for name, field := range fields {
		if *field == "" {
			return k, fmt.Errorf("%w: %s has no %s", ErrCurve, path, name)
		}
	}
	return k, nil
}
