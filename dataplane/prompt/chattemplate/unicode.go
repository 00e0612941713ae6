package chattemplate

import "unicode"

// sinceUnicode14 covers the code points that Go holds for printable and CPython 3.11 (Unicode 14)
// does not know, with rare scripts and symbols between them. Python's answers for them differ
// between its versions, so a template that depends on one of them is left to the worker.
var sinceUnicode14 = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xcf3, 0xcf3, 1}, {0xece, 0xece, 1},
	},
	R32: []unicode.Range32{
		{0x10efd, 0x10eff, 1},
		{0x1123f, 0x13455, 1},
		{0x1b132, 0x1b155, 1},
		{0x1d2c0, 0x1d2d3, 1},
		{0x1df25, 0x1e4f9, 1},
		{0x1f6dc, 0x1f6dc, 1},
		{0x1f774, 0x1f7d9, 1},
		{0x1fa75, 0x1faf8, 1},
		{0x2b739, 0x2b739, 1},
		{0x31350, 0x323af, 1},
	},
}

// unsettled reports whether versions of Python may differ on a code point: it came after Unicode
// 14, or is not assigned as Go knows it.
func unsettled(r rune) bool {
	return unicode.Is(sinceUnicode14, r) || !unicode.IsOneOf([]*unicode.RangeTable{
		unicode.L, unicode.M, unicode.N, unicode.P, unicode.S,
		unicode.Z, unicode.C,
	}, r)
}
