// Package announce tells routers which pages the KV tier of a node holds.
//
// An [Announcer] in the sidecar gathers changes of its tier for 100 ms and publishes them in a
// [Report], in the name of its node's token. Changes are numbered, so that a router sees a gap; it
// closes gaps with a [Question] to the announcer, which answers with the missing changes or with
// all contents. While nothing changes, the announcer repeats its position after 1 s, then in
// doubling intervals up to 10 s.
//
// # Concurrency
//
// Run is one goroutine. The bus answers questions and reads requests to join in goroutines of its
// own; each of the three has its own buffers.
//
// # Ownership
//
// [Report.Read] copies all that it keeps, and reuses the lists of the report.
//
// # Errors
//
// [ErrMessage] for messages that cannot be read. Everything else is counted and tried again.
package announce
