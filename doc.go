// Package warmpath is the root of the module; the program is in cmd/warmpath, and ARCHITECTURE.md
// says how its packages meet. Here are only the tests that police the repository: who may import
// whom, how comments read, and whether the documents are true.
//
// The product is for Linux: packages that use its system calls do not build elsewhere.
package warmpath
