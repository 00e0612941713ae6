// Package directory holds, in each router, the KV pages that the tiers of nodes have announced, and
// answers how many leading tokens of a prompt each tier holds.
//
//	file          job
//	index.go      nodes, reports, lookups
//	learn.go      questions to announcers: the contents of a node, or missing changes
//	contents.go   pages and kinds of all nodes, and the view that lookups read
//	table.go      pages and their holders
//	lookup.go     one lookup
//	hashcache.go  page hashes of prompts looked up before
//	status.go     state and metrics
//
// # Contents
//
// A page is named by the first 8 bytes of SGLang's hash, which covers the page and all tokens
// before it. It counts once all ranks and KV pools of an engine hold it ([proto.Kind]). Prompts
// with a LoRA adapter are not known by their tokens, so lookups find nothing for them. In doubt a
// lookup credits less: a wrong credit costs an unexpected prefill.
//
// # Gaps
//
// Changes are numbered. A report tells the number of its first change, so a lost report shows
// with the next one, after 10 s at the latest. The index then asks for the missing changes or,
// where the sidecar does not remember them, for all contents in parts. A restarted sidecar has
// another id, and all its pages are dropped. So are pages of nodes that the cluster does not list
// or that were silent for 40 s.
//
// # Cost of a lookup
//
// A prompt whose first page no tier holds costs one SHA-256. Otherwise each page costs one table
// probe, and a hash unless its segment of 512 tokens was looked up before. A lookup that has
// hashed 0.7 MiB or found 32,768 pages stops there; the next one of the prompt gets further.
//
// # Concurrency
//
// All methods may be called from any goroutine, SetNodes from one at a time. Index.mu guards the
// contents; Stored does not take it, but reads an immutable view and a table of atomic words.
// Each set of remembered hashes has a lock, held for one copy; a lookup that finds it taken
// hashes instead. Run starts a goroutine for each node that it learns, at most 4 at once, which
// end with it.
//
// # Ownership
//
// SetNodes keeps its map, which must not change any more. No other argument is kept.
//
// # Errors
//
// Messages that cannot be read and questions without an answer are counted and tried again.
package directory
