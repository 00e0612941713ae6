// Package admin serves operators: GET /status, /history, /choices, /index, /what_if, /nodes,
// /links, /metrics, /workers, /console, /debug/index and /debug/pprof/, POST /explain, /workers,
// /workers/drain, /workers/cordon and requests that all workers get. It also answers the paths that
// clients may ask of the router itself: /health, /ready and /v1/models.
//
// [API] is the entry. Each group of paths has a type of its own that reads the router's parts
// when it is asked; the package keeps no state but the operator key and the history.
//
// # Concurrency
//
// All methods may be called from any goroutine. Nothing here runs on the path of a client's
// inference request.
//
// # Errors
//
// Errors have the form of OpenAI's API, as those of package request have.
package admin
