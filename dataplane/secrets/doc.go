// Package secrets hides secrets in texts that are shown, in logs, errors, answers and metrics, and
// opens files that hold some.
//
// # Concurrency
//
// Its functions may be called from any goroutine.
package secrets
