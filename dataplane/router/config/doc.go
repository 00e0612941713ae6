// Package config holds the settings of a router: their defaults, their checks, and which of them
// can change while it runs.
//
// # Errors
//
// Check returns errors that name the flag at fault.
package config
