package openai

import "bytes"

// OutputScanner keeps the part of a /generate answer that holds the generated token ids, while its
// bytes pass by. In SSE each event repeats the ids so far, so the last event with ids is kept; of a
// JSON answer, all of it. Memory is bounded: an answer above maxOutput has no ids.
//
// The zero value is ready for a JSON answer; Reset prepares it for the next and keeps its memory.
type OutputScanner struct {
	sse      bool
	tooLarge bool   // the answer, or an event of it, was larger than maxOutput
	ids      []byte // JSON: the answer so far. SSE: the last whole event with ids
	event    []byte // SSE: the event that has not ended
}

// maxOutput is room for some 30,000 ids: longer answers end long after the moment in which their
// ids are used.
const maxOutput = 256 << 10

// Reset prepares the scanner for the next answer.
func (s *OutputScanner) Reset(sse bool) {
	*s = OutputScanner{sse: sse, ids: s.ids[:0], event: s.event[:0]}
}

// Write reads the next bytes of the answer. It keeps none of p and never fails.
func (s *OutputScanner) Write(p []byte) (int, error) {
	n := len(p)
	if s.tooLarge {
		return n, nil
	}
	if !s.sse {
		s.ids = append(s.ids, p...)
		s.tooLarge = len(s.ids) > maxOutput
		return n, nil
	}
	for {
		i := bytes.IndexByte(p, '\n') // an event of SGLang is one line
		if i < 0 {
			break
		}
		s.event = append(s.event, p[:i]...)
		if bytes.Contains(s.event, keyOutputIDs) {
			s.ids, s.event = s.event, s.ids
		}
		s.event, p = s.event[:0], p[i+1:]
	}
	s.event = append(s.event, p...)
	s.tooLarge = len(s.event) > maxOutput
	return n, nil
}

var keyOutputIDs = []byte(`"output_ids":`)

// AppendIDs appends the generated ids to dst, or returns it as it is when the answer had none. A
// quoted key inside a generated text would have its quotes escaped, so the first match is the key.
func (s *OutputScanner) AppendIDs(dst []uint32) []uint32 {
	i := bytes.Index(s.ids, keyOutputIDs)
	if s.tooLarge || i < 0 {
		return dst
	}
	i = skipSpace(s.ids, i+len(keyOutputIDs))
	if i >= len(s.ids) || s.ids[i] != '[' {
		return dst
	}
	var l promptValue
	ids, end := l.scanIDs(dst, s.ids, skipSpace(s.ids, i+1))
	if end == 0 {
		return dst
	}
	return ids
}
