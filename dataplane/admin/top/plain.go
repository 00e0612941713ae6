package top

import (
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain returns a writer for text of others on a terminal: of the words of workers and nodes, only
// lines, tabs and visible characters go on to w. A Write may end within a character.
func Plain(w io.Writer) io.Writer { return &plainWriter{w: w} }

type plainWriter struct {
	w    io.Writer
	part []byte // of a character
}

// Write implements io.Writer.
func (p *plainWriter) Write(b []byte) (int, error) {
	text := slices.Concat(p.part, b)
	end := len(text)
	for i := end - 1; i >= max(end-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}
	_, err := io.WriteString(p.w, strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, strings.ToValidUTF8(string(text[:end]), "?")))
	p.part = append([]byte(nil), text[end:]...)
	return len(b), err
}

// visible returns a character that a terminal shows; -1: it would obey it.
func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
		return -1
	}
	return r
}
