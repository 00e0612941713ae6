package tokenizer

// deepSeek is the third Split of DeepSeek V3 and R1. It works on the text that the two before leave
// between numbers and runs of Chinese and Japanese. It does not match everything: control
// characters, for one, are left to a stretch without match.
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//	| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
type deepSeek struct{ *unicodeTables }

func (d deepSeek) next(_ *budget, s string, i int) (int, bool) {
	end := d.match(s, i)
	if end > i {
		return end, true
	}
	for end < len(s) {
		_, n := d.at(s, end)
		end += n
		if end < len(s) && d.match(s, end) > end {
			break
		}
	}
	return end, false
}

// match is the end of the match that begins at s[i], or i.
func (d deepSeek) match(s string, i int) int {
	m, n := d.at(s, i)
	first := s[i]
	switch {
	case m&(letter|mark) != 0:
		return d.run(s, i+n, letter|mark)
	case first < 0x80 && m&(punct|symbol) != 0:
		if end := asciiLetters(s, i+1); end > i+1 {
			return end
		}
	case m&(punct|symbol) == 0 && first != '\r' && first != '\n':
		if end := d.run(s, i+n, letter|mark); end > i+n {
			return end
		}
	}
	j := i
	if first == ' ' && i+1 < len(s) {
		j++
	}
	if end := d.run(s, j, punct|symbol); end > j {
		return lineBreaks(s, end, false)
	}
	if m&space == 0 {
		return i
	}
	return d.spaces(s, i, true)
}

func asciiLetters(s string, i int) int {
	for i < len(s) && (s[i]|0x20) >= 'a' && (s[i]|0x20) <= 'z' {
		i++
	}
	return i
}

// numberScanner is `\p{N}{1,3}`, the first Split of DeepSeek V3, or `\p{N}`.
type numberScanner struct {
	*unicodeTables
	most int
}

func (d numberScanner) next(_ *budget, s string, i int) (int, bool) {
	if end := d.digits(s, i, d.most); end > i {
		return end, true
	}
	return d.runNot(s, i, number), false
}

// chineseScanner is `[一-龥぀-ゟ゠-ヿ]+`, the second Split of DeepSeek V3.
type chineseScanner struct{}

func (chineseScanner) next(_ *budget, s string, i int) (int, bool) {
	matched := isChinese(s, i)
	for i < len(s) && isChinese(s, i) == matched {
		_, n := decode(s, i)
		i += n
	}
	return i, matched
}

func isChinese(s string, i int) bool {
	if s[i] < 0xE3 {
		return false
	}
	r, _ := decode(s, i)
	return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF
}
