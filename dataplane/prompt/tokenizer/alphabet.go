package tokenizer

import "unicode/utf8"

// alphabet has the character with which GPT-2 writes each byte: printable Latin-1 bytes are their
// own characters, and the other 68 bytes are U+0100 and on, in order. See bytes_to_unicode in
// https://github.com/openai/gpt-2/blob/master/src/encoder.py.
var alphabet = func() (a [256]string) {
	next := rune(0x100)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xFF && b != 0xAD {
			a[b] = string(b)
			continue
		}
		a[b] = string(next)
		next++
	}
	return a
}()

// lettersEnd is past the last character of the alphabet.
const lettersEnd = 0x144

// letterBytes is the alphabet the other way round: the byte of each character, -1 for none.
var letterBytes = func() (back [lettersEnd]int16) {
	for i := range back {
		back[i] = -1
	}
	for b, c := range alphabet {
		r, _ := utf8.DecodeRuneInString(c)
		back[r] = int16(b)
	}
	return back
}()

// toAlphabet appends s with each byte as a character.
func toAlphabet(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, alphabet[s[i]]...)
	}
	return dst
}

// fromAlphabet returns the bytes of a text in the alphabet. It is false where a character is not of
// the alphabet.
func fromAlphabet(s string) ([]byte, bool) {
	return appendFromAlphabet(make([]byte, 0, len(s)), s)
}

func appendFromAlphabet(dst []byte, s string) ([]byte, bool) {
	for _, r := range s {
		if r >= lettersEnd || letterBytes[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(letterBytes[r]))
	}
	return dst, true
}
