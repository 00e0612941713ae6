package openai

// AppendTokens appends the ids of "tokens" in the answer of a worker's POST /v1/tokenize to one
// prompt: {"tokens":[…],"count":…,"max_model_len":…}. On an error dst is returned as it was.
//
// It is one pass, which checks the answer as it goes, since nearly all of it is the list: to check
// it first and to look for the list then took half of the CPU of a request with a text of 64 KB.
func AppendTokens(dst []uint32, body []byte) ([]uint32, error) {
	var ids []uint32
	found := false
	i := skipSpace(body, 0)
	if i >= len(body) || body[i] != '{' {
		return dst, errNoTokens()
	}
	i = skipSpace(body, i+1)
	for more := i >= len(body) || body[i] != '}'; more; {
		key, escaped, at, err := scanKey(body, i)
		if err != nil {
			return dst, err
		}
		if escaped {
			key = new(document).keyOf(key, true)
		}
		if string(key) == "tokens" { // of equal keys the last wins
			ids, i, err = appendList(dst, body, at)
			found = true
		} else {
			i, err = skipValue(body, at, 1)
		}
		if err != nil {
			return dst, err
		}
		if i, more, err = nextMember(body, i, '}'); err != nil {
			return dst, err
		}
	}
	if !found {
		return dst, errNoTokens()
	}
	return ids, nil
}

// appendList appends the ids of the list at i and returns the index after it.
func appendList(dst []uint32, b []byte, i int) ([]uint32, int, *Error) {
	if i >= len(b) || b[i] != '[' {
		return dst, i, errNoTokens()
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return dst, i + 1, nil
	}
	var l promptValue
	ids, end := l.scanIDs(dst, b, i)
	if end == 0 {
		return dst, i, errAt("tokens", l.why, l.at)
	}
	return ids, end, nil
}

func errNoTokens() *Error { return BadRequest("tokens", "The answer has no list of tokens.") }
