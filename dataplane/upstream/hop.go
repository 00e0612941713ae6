package upstream

import "bytes"

// hopByHop reports whether a field belongs to one connection and ends here (RFC 9110 7.6.1 and
// its predecessors).
func hopByHop(k []byte) bool {
	switch len(k) {
	case 2:
		return fold(k, "te")
	case 7:
		return fold(k, "trailer") || fold(k, "upgrade")
	case 8:
		return fold(k, "trailers")
	case 10:
		return fold(k, "connection") || fold(k, "keep-alive")
	case 17:
		return fold(k, "transfer-encoding")
	}
	return len(k) > 6 && fold(k[:6], "proxy-")
}

// hopByHopAnswer is hopByHop for answers: Trailer goes on to the client, as do the fields that
// it names.
func hopByHopAnswer(k []byte) bool { return hopByHop(k) && !fold(k, "trailer") }

// skipRequestField reports whether a client's field never reaches a worker: fields of its
// connection, fields that the router writes itself, Expect, which is answered already,
// Accept-Encoding, since the usage in an answer must be readable here, and those by which a gateway
// speaks to SGLang: X-Override-* changes a request's id, priority, rank and bootstrap address,
// X-SMG-* is the key of another gateway's routing.
func skipRequestField(k []byte) bool {
	if begins(k, "x-override-") || begins(k, "x-smg-") {
		return true
	}
	switch len(k) {
	case 4:
		return fold(k, "host")
	case 6:
		return fold(k, "expect")
	case 14:
		return fold(k, "content-length")
	case 15:
		return fold(k, "accept-encoding")
	}
	return hopByHop(k)
}

// nominated reports whether the value of a Connection field names k.
func nominated(connection, k []byte) bool {
	if len(connection) == 0 {
		return false
	}
	return hasToken(connection, k)
}

// hasToken looks for a token in a comma-separated list, without regard to case.
func hasToken(list, token []byte) bool {
	for len(list) > 0 {
		var item []byte
		if i := bytes.IndexByte(list, ','); i >= 0 {
			item, list = list[:i], list[i+1:]
		} else {
			item, list = list, nil
		}
		if bytes.EqualFold(bytes.TrimSpace(item), token) {
			return true
		}
	}
	return false
}

// replaced reports whether one of extra takes the place of k.
func replaced(extra []Field, k []byte) bool {
	for i := range extra {
		if fold(k, extra[i].Key) {
			return true
		}
	}
	return false
}

// routersOwn reports whether a field of an answer is one of those that the router writes.
func routersOwn(k []byte) bool { return begins(k, "x-warmpath-") || fold(k, "x-request-id") }

// begins reports whether k begins with prefix, without regard to case.
func begins(k []byte, prefix string) bool {
	return len(k) >= len(prefix) && fold(k[:len(prefix)], prefix)
}

// fold compares ASCII field names without regard to case and without the Unicode tables of
// bytes.EqualFold.
func fold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		d := s[i]
		if c != d && (c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}
