package openai

import "bytes"

// Usage is the number of tokens that an answer reports. A batch counts all of its prompts.
type Usage struct {
	PromptTokens, CachedTokens, CompletionTokens int
	// HasPrompt and HasCached tell zero from absent. SGLang's OpenAI routes report cached tokens
	// only with --enable-cache-report.
	HasPrompt, HasCached bool
}

// Believable returns u without its claim about the cache where that is more than the prompt, which
// no cache can hold.
func (u Usage) Believable() Usage {
	if u.HasPrompt && u.CachedTokens > u.PromptTokens {
		u.CachedTokens, u.HasCached = 0, false
	}
	return u
}

const (
	// tailSize is the number of bytes kept from one Write to the next: the byte before a key, the
	// longest key with quotes (25), white space and a number of up to 18 digits with the byte
	// that ends it fit with room to spare.
	tailSize = 64
	// maxChoices bounds the memory of a batched stream; choices above it are not counted.
	maxChoices = 1024
)

// UsageScanner finds the usage in an answer while its bytes pass by, however they are cut. It does
// not parse the answer: it looks for the keys of usageKeys, such as "prompt_tokens", with an
// integer after them. Inside a JSON string a key's quotes would be escaped, so a text that quotes a
// usage is never taken for one; the place of the key in the document is not checked.
//
// A key seen again begins the next record. In SSE the last record counts (a stream may report
// usage in every event), for a batched /generate the last record of each index; in a JSON answer,
// records add up (/generate answers a batch with a list; with n > 1 it counts a prompt n times).
// Anthropic's API has one record, of which a stream sends the prompt first and the rest last.
//
// The zero value scans a JSON answer; Reset prepares it for the next answer and keeps its memory.
type UsageScanner struct {
	sse, indexed bool
	single       bool // one record, in parts
	keys         *usageKeys

	cur   record
	total Usage    // JSON: records before cur
	byIdx []record // SSE of /generate: the last record of each index

	tail [tailSize]byte
	n    int // bytes in tail
	used int // bytes of tail that are behind the last number taken
}

// record is the usage of one answer of perhaps many.
type record struct {
	Usage
	hasCompletion bool
}

// Reset prepares the scanner for the answer to a request of api, which is SSE or one JSON value.
func (s *UsageScanner) Reset(api API, sse bool) {
	clear(s.byIdx)
	*s = UsageScanner{sse: sse, indexed: sse && api == APIGenerate, byIdx: s.byIdx[:0]}
	switch api {
	case APIMessages:
		s.keys, s.single = &messagesKeys, true
	case APIOllama:
		s.keys = &ollamaKeys
	}
}

// Write reads the next bytes of the answer. It keeps none of p and never fails.
func (s *UsageScanner) Write(p []byte) (int, error) {
	if !s.indexed {
		s.scan(p)
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			s.scan(rest)
			break
		}
		line := rest[:i+1]
		rest = rest[i+1:]
		if s.n == 0 { // as nearly always: an event comes whole
			s.find(line, 0, len(line))
		} else {
			s.scan(line)
			line = s.tail[:s.n]
		}
		s.endLine(line)
		s.n, s.used = 0, 0 // nothing goes on in the next line
	}
	return len(p), nil
}

// Usage returns the usage found. Call it when the answer has ended; a number cut off at the very
// end does not count.
func (s *UsageScanner) Usage() Usage {
	if s.single {
		u := s.cur.Usage
		u.PromptTokens += u.CachedTokens
		u.HasPrompt = u.PromptTokens > 0 // SGLang writes 0 where it does not know
		return u
	}
	if !s.indexed {
		u := s.total
		u.add(s.cur.Usage)
		return u
	}
	var u Usage
	for i := range s.byIdx {
		u.add(s.byIdx[i].Usage)
	}
	return u
}

func (u *Usage) add(v Usage) {
	u.PromptTokens += v.PromptTokens
	u.CachedTokens += v.CachedTokens
	u.CompletionTokens += v.CompletionTokens
	u.HasPrompt = u.HasPrompt || v.HasPrompt
	u.HasCached = u.HasCached || v.HasCached
}

// scan looks for keys in p and in the seam between the tail and p.
func (s *UsageScanner) scan(p []byte) {
	from := 0
	if s.n > 0 {
		from = s.scanSeam(p)
	}
	end := s.find(p, from, len(p))
	s.keepTail(p, end)
}

// scanSeam takes the keys that begin in the tail, or with p's first byte (the byte before it is
// then the tail's), and returns where in p the search goes on.
func (s *UsageScanner) scanSeam(p []byte) (from int) {
	var seam [2 * tailSize]byte
	n := copy(seam[:], s.tail[:s.n])
	n += copy(seam[n:], p[:min(len(p), tailSize)])
	end := s.find(seam[:n], s.used, s.n)
	s.used = end
	return max(1, end-s.n)
}

// find takes every complete key and number in b with a key that begins between from and last. It
// returns the index after the last one taken, or from.
func (s *UsageScanner) find(b []byte, from, last int) int {
	mark := s.names().end
	for i := from; i < len(b); {
		k := bytes.Index(b[i:], mark)
		if k < 0 {
			break
		}
		i += k + len(mark)
		start, id := s.keyBefore(b, i)
		if id == 0 || start < from || start > last {
			continue
		}
		if v, end, ok := countAfter(b, i); ok {
			s.take(id, v)
			i, from = end, end
		}
	}
	return from
}

// Key takes the number behind the key of b that ends at end, quotes included. It is for callers
// that walk a whole answer themselves, and do not write it.
func (s *UsageScanner) Key(b []byte, end int) {
	if !bytes.HasSuffix(b[:end], s.names().end) {
		return
	}
	if _, id := s.keyBefore(b, end); id != 0 {
		if v, _, ok := countAfter(b, end); ok {
			s.take(id, v)
		}
	}
}

// The keys that find takes.
const (
	keyPrompt = iota + 1
	keyCompletion
	keyCached
)

// usageKeys are the names of an API for the numbers of a usage, in quotes, and the end of each.
type usageKeys struct{ prompt, cached, completion, end []byte }

var (
	openAIKeys = usageKeys{[]byte(`"prompt_tokens"`), []byte(`"cached_tokens"`), []byte(`"completion_tokens"`), []byte(`_tokens"`)}
	// messagesKeys are Anthropic's: input_tokens leaves out the cached ones.
	messagesKeys = usageKeys{[]byte(`"input_tokens"`), []byte(`"cache_read_input_tokens"`), []byte(`"output_tokens"`), []byte(`_tokens"`)}
	// ollamaKeys are Ollama's, which knows no cached tokens.
	ollamaKeys = usageKeys{[]byte(`"prompt_eval_count"`), []byte(`"cached_eval_count"`), []byte(`"eval_count"`), []byte(`_count"`)}
)

// names returns the keys of the answer's API.
func (s *UsageScanner) names() *usageKeys {
	if s.keys == nil {
		return &openAIKeys
	}
	return s.keys
}

// keyBefore returns the key that ends at end and the index of its opening quote. The quote opens a
// string only if the byte before it can precede a string; after a backslash it is text.
func (s *UsageScanner) keyBefore(b []byte, end int) (start, id int) {
	key, names := b[:end], s.names()
	switch {
	case bytes.HasSuffix(key, names.prompt):
		start, id = end-len(names.prompt), keyPrompt
	case bytes.HasSuffix(key, names.cached):
		start, id = end-len(names.cached), keyCached
	case bytes.HasSuffix(key, names.completion):
		start, id = end-len(names.completion), keyCompletion
	default:
		return 0, 0
	}
	if start == 0 || b[start-1] != ',' && b[start-1] != '{' && b[start-1] > ' ' {
		return 0, 0 // also a key without the byte before it: it was judged when that byte was there
	}
	return start, id
}

// countAfter reads the colon and the whole number at i. The byte that ends the number must be
// there too: more digits may come with the next Write.
func countAfter(b []byte, i int) (v, end int, ok bool) {
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return 0, 0, false
	}
	start := skipSpace(b, i+1)
	end = skipDigits(b, start)
	if end >= len(b) || b[end] != ',' && b[end] != '}' && b[end] > ' ' {
		return 0, 0, false
	}
	v, ok = parseInt(b[start:end])
	return v, end, ok
}

// take enters a number into the current record, or begins the next record with it.
func (s *UsageScanner) take(id, v int) {
	switch {
	case s.single && id == keyPrompt:
		s.cur = record{} // the numbers before were part of a tool's input
	case !s.single && s.cur.has(id):
		if !s.sse {
			s.total.add(s.cur.Usage)
		}
		s.cur = record{}
	}
	switch id {
	case keyPrompt:
		s.cur.PromptTokens, s.cur.HasPrompt = v, true
	case keyCached:
		s.cur.CachedTokens, s.cur.HasCached = v, true
	default:
		s.cur.CompletionTokens, s.cur.hasCompletion = v, true
	}
}

func (r *record) has(id int) bool {
	switch id {
	case keyPrompt:
		return r.HasPrompt
	case keyCached:
		return r.HasCached
	}
	return r.hasCompletion
}

// keepTail keeps the last bytes seen; end is how far of p is taken.
func (s *UsageScanner) keepTail(p []byte, end int) {
	if len(p) >= tailSize {
		s.n = copy(s.tail[:], p[len(p)-tailSize:])
		s.used = max(0, end-(len(p)-tailSize))
		return
	}
	drop := max(0, s.n+len(p)-tailSize)
	s.n = copy(s.tail[:], s.tail[drop:s.n])
	s.used = max(0, s.used-drop)
	if end > 1 {
		s.used = s.n + end
	}
	s.n += copy(s.tail[s.n:], p)
}

// endLine files the record of a line of /generate's SSE, of which the end is given, under its
// index.
func (s *UsageScanner) endLine(line []byte) {
	if s.cur == (record{}) {
		return
	}
	i := lineIndex(line)
	if i < maxChoices {
		for len(s.byIdx) <= i {
			s.byIdx = append(s.byIdx, record{})
		}
		s.byIdx[i] = s.cur
	}
	s.cur = record{}
}

// lineIndex reads the "index" with which SGLang ends the events of a batch; 0 when there is none.
func lineIndex(line []byte) int {
	line = bytes.TrimRight(line, "} \r\n")
	i := len(line)
	for i > 0 && isDigit(line[i-1]) {
		i--
	}
	v, ok := parseInt(line[i:])
	if !ok || !bytes.HasSuffix(bytes.TrimRight(line[:i], " "), []byte(`"index":`)) {
		return 0
	}
	return v
}
