// Package regularfile reads files that may be anything: paths that others name, and files that are
// read again and again. To open a pipe waits for its other end, to open a device may have effects,
// and a device has no end.
package regularfile
