package chattemplate

import "unsafe"

// view returns the string that shares the bytes of b. The caller keeps them unchanged while the
// string is in use: requests are only read during a render, and bytesSlab never writes twice to the
// same bytes.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns the bytes of a string, which the caller only reads.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
