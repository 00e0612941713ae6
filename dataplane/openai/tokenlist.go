package openai

// AppendTokens appends the ids of "tokens" in the answer of a worker's POST /v1/tokenize to one
// prompt: {"tokens":[…],"count":…,"max_model_len":…}. On an error dst is returned as it was.
func AppendTokens(dst []uint32, body []byte) ([]uint32, error) {
	if _, err := skipValue(body, skipSpace(body, 0), 0); err != nil {
		return dst, err
	}
	var r Request
	raw := r.member(body[skipSpace(body, 0):], "tokens")
	if len(raw) == 0 || raw[0] != '[' {
		return dst, BadRequest("tokens", "The answer has no list of tokens.")
	}
	i := skipSpace(raw, 1)
	if raw[i] == ']' {
		return dst, nil
	}
	var l list
	ids, end := l.scanIDs(dst, raw, i)
	if end == 0 {
		return dst, errAt("tokens", l.why, l.at)
	}
	return ids, nil
}
