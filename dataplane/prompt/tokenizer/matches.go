package tokenizer

import "unicode/utf8"

// matches walks a text from one added token to the next. Each call of next yields s[from:to],
// either a token or the text before one. As in the library the search continues behind the token
// itself, even where it swallowed the spaces after it.
type matches struct {
	tables *unicodeTables
	finder *finder
	s      string

	from, to int
	token    *addedToken // nil for text between tokens

	at      int // where the search goes on
	done    int // end of the yielded text
	waiting *addedToken
	stop    int // where the waiting token ends
}

func (m *matches) next() bool {
	if m.waiting != nil {
		m.from, m.to, m.token = m.to, m.stop, m.waiting
		m.waiting = nil
		return true
	}
	for m.finder != nil {
		at, e := m.finder.find(m.s, m.at)
		if e == nil {
			break
		}
		end := at + len(e.text)
		m.at = end
		// A dropped match is dropped as a whole: the search continues behind it.
		if e.token.SingleWord && !m.isSingleWord(at, end) {
			continue
		}
		begin := at
		// The token before may have taken the spaces already.
		if e.token.LStrip {
			begin = max(m.spacesBefore(at), m.done)
		}
		if e.token.RStrip {
			// Up to there the token before has taken spaces already.
			end = m.tables.run(m.s, max(end, m.done), space)
		}
		gap := m.done
		m.done = end
		if gap < begin {
			m.from, m.to, m.token = gap, begin, nil
			m.waiting, m.stop = &e.token, end
			return true
		}
		m.from, m.to, m.token = begin, end, &e.token
		return true
	}
	m.finder = nil
	if m.done >= len(m.s) {
		return false
	}
	m.from, m.to, m.token = m.done, len(m.s), nil
	m.done = len(m.s)
	return true
}

// isSingleWord reports whether s[at:end] touches no word.
func (m *matches) isSingleWord(at, end int) bool {
	if at > 0 {
		r, _ := utf8.DecodeLastRuneInString(m.s[:at])
		if m.tables.maskOf(r)&word != 0 {
			return false
		}
	}
	if end < len(m.s) {
		if class, _ := m.tables.at(m.s, end); class&word != 0 {
			return false
		}
	}
	return true
}

// spacesBefore is where the white space that ends at s[at] begins, behind the yielded text.
func (m *matches) spacesBefore(at int) int {
	for at > m.done {
		r, n := utf8.DecodeLastRuneInString(m.s[:at])
		if m.tables.maskOf(r)&space == 0 {
			break
		}
		at -= n
	}
	return at
}
