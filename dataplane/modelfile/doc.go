// Package modelfile reads files of models at paths that workers or operators name.
//
// A worker is trusted to answer for its models, and not with the files of this machine: it may name
// /dev/zero, a named pipe, a key of the router's user, or a sparse file of a terabyte. So each path
// of a worker is read here and nowhere else: a regular file, below a folder that the operator
// allows, symbolic links resolved, up to a size for its kind, before a deadline. Folders that the
// operator names have the same bounds, and may lie and link anywhere.
//
// # Concurrency
//
// A Reader may be used from any number of goroutines. A read that outlasts its deadline, on a file
// system that hangs, keeps its goroutine until the kernel returns; there are maxReads of these.
//
// # Ownership
//
// Content belongs to the caller.
//
// # Errors
//
// ErrNotAllowed and ErrLate, those of package regularfile, and those of package fs: fs.ErrNotExist
// is a file that is not on this machine.
package modelfile
