package chattemplate

import "unicode"

// Both tables were made by asking CPython 3.11 (Unicode 14) and Go 1.26 about every code point.
// Python's answers for these code points differ between its versions, or from Go's, so a template
// that depends on one of them is left to the worker.

// sinceUnicode14 holds the code points that Go holds for printable and CPython 3.11 does not know.
var sinceUnicode14 = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xcf3, 0xcf3, 1}, {0xece, 0xece, 1},
	},
	R32: []unicode.Range32{
		{0x10efd, 0x10eff, 1},
		{0x1123f, 0x11241, 1},
		{0x11b00, 0x11b09, 1},
		{0x11f00, 0x11f10, 1},
		{0x11f12, 0x11f3a, 1},
		{0x11f3e, 0x11f59, 1},
		{0x1342f, 0x1342f, 1},
		{0x13440, 0x13455, 1},
		{0x1b132, 0x1b132, 1},
		{0x1b155, 0x1b155, 1},
		{0x1d2c0, 0x1d2d3, 1},
		{0x1df25, 0x1df2a, 1},
		{0x1e030, 0x1e06d, 1},
		{0x1e08f, 0x1e08f, 1},
		{0x1e4d0, 0x1e4f9, 1},
		{0x1f6dc, 0x1f6dc, 1},
		{0x1f774, 0x1f776, 1},
		{0x1f77b, 0x1f77f, 1},
		{0x1f7d9, 0x1f7d9, 1},
		{0x1fa75, 0x1fa77, 1},
		{0x1fa87, 0x1fa88, 1},
		{0x1faad, 0x1faaf, 1},
		{0x1fabb, 0x1fabd, 1},
		{0x1fabf, 0x1fabf, 1},
		{0x1face, 0x1facf, 1},
		{0x1fada, 0x1fadb, 1},
		{0x1fae8, 0x1fae8, 1},
		{0x1faf7, 0x1faf8, 1},
		{0x2b739, 0x2b739, 1},
		{0x31350, 0x323af, 1},
	},
}

// specialCase holds the code points with an upper, lower or title case that is several code points,
// depends on their surroundings (the final sigma), or differs from Go's.
var specialCase = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xdf, 0xdf, 1},
		{0x130, 0x130, 1},
		{0x149, 0x149, 1},
		{0x1f0, 0x1f0, 1},
		{0x390, 0x390, 1},
		{0x3a3, 0x3a3, 1},
		{0x3b0, 0x3b0, 1},
		{0x587, 0x587, 1},
		{0x1e96, 0x1e9a, 1},
		{0x1f50, 0x1f50, 1},
		{0x1f52, 0x1f52, 1},
		{0x1f54, 0x1f54, 1},
		{0x1f56, 0x1f56, 1},
		{0x1f80, 0x1faf, 1},
		{0x1fb2, 0x1fb4, 1},
		{0x1fb6, 0x1fb7, 1},
		{0x1fbc, 0x1fbc, 1},
		{0x1fc2, 0x1fc4, 1},
		{0x1fc6, 0x1fc7, 1},
		{0x1fcc, 0x1fcc, 1},
		{0x1fd2, 0x1fd3, 1},
		{0x1fd6, 0x1fd7, 1},
		{0x1fe2, 0x1fe4, 1},
		{0x1fe6, 0x1fe7, 1},
		{0x1ff2, 0x1ff4, 1},
		{0x1ff6, 0x1ff7, 1},
		{0x1ffc, 0x1ffc, 1},
		{0xfb00, 0xfb06, 1},
		{0xfb13, 0xfb17, 1},
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
