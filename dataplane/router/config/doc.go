// Package config holds the settings of a router, their checks, and which of them can change while
// it runs; most defaults are those of the parts that they configure.
//
// # Errors
//
// Check returns errors that name the flag at fault.
package config
