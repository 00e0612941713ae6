package sim

import "bytes"

// encode returns the token ids of text. Special tokens inside the text are
// recognized, as SGLang's tokenizers do.
func encode(text []byte) (dst []uint32) {
	for len(text) > 0 {
		at, id, n := nextSpecial(text)
		dst = appendPlain(dst, text[:at])
		if n == 0 {
			break
		}
		dst = append(dst, id)
		text = text[at+n:]
	}
	return dst
}

// nextSpecial returns where the first special token of text begins, its id and
// its length; n is 0 when there is none, and at is then len(text).
func nextSpecial(text []byte) (at int, id uint32, n int) {
	for from := 0; ; {
		i := bytes.IndexByte(text[from:], '<')
		if i < 0 {
			return len(text), 0, 0
		}
		from += i
		for id, s := range specialTokens() {
			if bytes.HasPrefix(text[from:], []byte(s)) {
				return from, uint32(id), len(s)
			}
		}
		from++
	}
}

// appendPlain splits text into words and appends their tokens. A word is a run of lower-case
// letters and the one space before it, if any; each other byte stands alone. No token crosses a
// word boundary, so the ids of a text that ends at one are a prefix of the ids of every longer
// text.
func appendPlain(dst []uint32, text []byte) []uint32 {
	for i := 0; i < len(text); {
		start := i
		if text[i] == ' ' {
			i++
		}
		end := i
		for end < len(text) && isLetter(text[end]) {
			end++
		}
		if end == i {
			dst = append(dst, byteBase+uint32(text[start]))
			i = start + 1
			continue
		}
		dst = appendWord(dst, text[i:end], i > start)
		i = end
	}
	return dst
}

// appendWord appends the tokens of one word, three letters each.
func appendWord(dst []uint32, word []byte, spaced bool) []uint32 {
	if spaced {
		n := min(3, len(word))
		dst = append(dst, spacedToken(word[:n]))
		word = word[n:]
	}
	for len(word) > 0 {
		n := min(3, len(word))
		dst = append(dst, plainToken(word[:n]))
		word = word[n:]
	}
	return dst
}

func spacedToken(w []byte) uint32 {
	switch len(w) {
	case 1:
		return spacedOneBase + letterValue(w)
	case 2:
		return spacedTwoBase + letterValue(w)
	}
	return spacedThreeBase + letterValue(w)
}

func plainToken(w []byte) uint32 {
	switch len(w) {
	case 1:
		return byteBase + uint32(w[0])
	case 2:
		return twoBase + letterValue(w)
	}
	return threeBase + letterValue(w)
}

func letterValue(w []byte) (v uint32) {
	for _, c := range w {
		v = v*letters + uint32(c-'a')
	}
	return v
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }

// decoded returns the text of ids, the reverse of encode.
func decoded(ids []uint32) (dst []byte) {
	for _, id := range ids {
		dst = appendToken(dst, id)
	}
	return dst
}
