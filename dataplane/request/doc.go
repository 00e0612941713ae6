// Package request runs one client's request from its arrival to the end of its answer.
//
// # A request's life
//
// exchange.serve is the list of steps:
//
//	read      parse the body, or the chat that it stands for (api.go, turn.go); refuse token ids
//	          that would end an engine (api.go)
//	prompt    body to token ids or text, and their block hashes (prompt.go)
//	admit     wait while every rank is full (queue.go)
//	dispatch  until an answer begins (attempt.go):
//	  choose    a rank or a pair (choice.go)
//	  send      to a rank (attempt.go, body.go) or to both of a pair (pair.go)
//	  judge     the beginning of the answer (answer.go); retry, or keep the error (blame.go)
//	forward   the answer, as it comes (answer.go)
//	finish    tell router, breaker, metrics and access log how the answer ended (exchange.go)
//
// Any failure before the first byte of the answer leads to another worker and not to an error.
//
// [Handler] is the entry. [Server] owns the listeners of clients and operators; package admin
// serves the paths that are the router's own.
//
// # Answers
//
// An answer is judged by its content and its end (answer.go; consequences: failures.go, blame.go).
// 429 and 503 go to another worker while one is fit, and so do a status from 500 on, an error event
// before any text, an error with status 200 and an empty answer. A 4xx goes to another worker too,
// unless workers have lately confirmed such ones: it is the client's fault where another worker
// agrees, and the worker's where another one answers well. A budget bounds second answers in vain
// (24 of a client and one a second, eight times as many of all), so clients' mistakes are rarely
// sent twice; one that helps is free, so that a worker which fails all its requests at once gives
// none of them its error. Of /v1/responses, requests in the background, and with tools for gpt-oss,
// which may call the worker's own, are sent once, lost connections included: they go to
// another worker only if the first was not reached, or was full. Where all agree, the client gets a
// worker's own answer; an error behind a good status gets its own, and for an empty one the router
// makes an error. Errors teach nothing about a rank's cache or load.
//
// A worker's breaker opens after three faults in a row or five among the last twenty answers, for 1
// s and then up to 30 s (2 s for a full worker); one request at a time tries the worker again, and
// only an answer that ended well closes it. An answer that another worker gives well is a fault,
// and so is a refused connection. Where no other worker can be asked (behind text, without a
// budget), the fault may be the request's (blame.go): its client, by key or address, and its prompt
// count once a minute, or while other workers answer them well. Errors of several workers count
// against none. A stream is sent in whole events: bytes behind the last empty line wait for the
// rest, up to 64 KiB, so that the router's error event never meets half of another one.
//
// A response's id names its worker by 12 of its digits, so that any router sends follow-ups
// (previous_response_id), GET and cancel there. The router remembers the items of stored
// conversations (64 MiB) to know the prompt of the next turn; a response of a dead worker gets the
// API's own 404. The chat that SGLang makes of /v1/messages and /v1/responses is not shown by any
// endpoint, so these conversions are proved by answers (prompt.go): ids count once three in a row
// report the expected number of prompt tokens, and a difference ends it.
//
// # Pairs
//
// A model with prefill and decode workers gets each request at one of each, at once, with a
// bootstrap room of 63 bits that is never used again. SGLang refuses a request without a room on
// either role. No byte goes to the client before the decode worker's first event was judged: SGLang
// reports failures in streams that began with 200. Until then the failure of either leg ends the
// other, by its connection and by /abort_request, and another pair is tried. A kept-alive
// connection that was closed before any byte of an answer is no failure: both legs go to the same
// pair once more, on new connections and in a new room. A transfer error counts against both
// workers; a suspected worker is eligible again only where no other is left. Prompt log
// probabilities exist in the prefill worker's answer only, and are merged into the decode worker's
// on request.
//
// # Requests that end engines
//
// An exception in SGLang's scheduler ends the engine with all its requests, and some bodies raise
// one (bench/engines/testdata/killers.jsonl). openai/check.go refuses known ones with 400 and
// leaves all other mistakes to the worker. Token ids are compared with the model's vocabulary. No
// release reports its size, so a worker's monitor asks: SGLang refuses an impossible logit_bias and
// names the range of ids. Without that answer the model's config.json counts.
//
// Unknown bodies are blame.go's. A death is a process that is gone: its address refuses
// connections. A closed connection is none, and a hang counts while its process lives. A request is
// in flight at two deaths at most, then it gets an error, and its digest (without rid, user and
// similar fields) is logged. Nothing is held back or remembered before that; --quarantine refuses
// equal requests afterwards. An engine that has run for 2 s with a request that is not streamed did
// not die of it. All requests in flight share one look at whether the process is gone.
//
// # Concurrency
//
// fasthttp runs each request on its connection's goroutine. The exchange, which is the state of the
// request, belongs to that goroutine until upstream.Observer.Closed is called. Three others touch
// it: the watcher of clients cancels it when the client leaves, a worker's monitor when the worker
// hangs, and a client's POST /abort_request reads its ids and ranks under sentIDs.mu. A request to
// a pair has one goroutine more, which runs the prefill leg (prefillLeg.start); the exchange waits
// for it (stop) before it gives back any memory of the request. A bounded number of goroutines
// sends /abort_request to workers (abort.go); Run waits for them.
//
// legRace.mu, with a Canceler's lock under it, decides once a pair whether the decode worker's
// answer stands. sentIDs.mu guards the requests that workers have, by their ids; clientAborts.mu
// and abortsUnderWay.mu, which guard the aborts, are taken under it. sources.mu guards recent
// failures and budgets, culprits.mu refused requests. modelMetrics.mu and rankMetrics.mu guard new
// series; goneRanks.mu, held for as long as a scrape takes, is above the latter.
//
// # Ownership
//
// Exchanges are pooled. Bodies stay in fasthttp's buffers and are sent to the worker from there.
//
// # Errors
//
// failures.go has the one table of failures: try again, fault, suspicion and the client's answer.
package request
