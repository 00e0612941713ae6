package openai

// AppendTokens appends the ids of "tokens" in the answer of a worker's POST /v1/tokenize to one
// prompt: {"tokens":[…],"count":…,"max_model_len":…}. On an error dst is returned as it was.
//
// It is one pass, which checks the answer as it goes, since nearly all of it is the list: to check
// it first and to look for the list then took half of the CPU of a request with a text of 64 KB.
func AppendTokens(dst []uint32, body []byte) ([]uint32, error) {
	ids, found := dst, false
	i := skipSpace(body, 0)
	if i >= len(body) || body[i] != '{' {
		return dst, errNoTokens()
	}
	_, err := walkObject(body, i+1, func(key []byte, _ bool, at int) (end int, err *Error) {
		if string(Unescape(key)) != "tokens" {
			return skipValue(body, at, 1)
		}
		found = true
		ids, end, err = appendList(dst, body, at) // of equal keys the last wins
		return end, err
	})
	if err == nil && !found {
		err = errNoTokens()
	}
	if err != nil {
		return dst, err
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
