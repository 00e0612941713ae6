// Package directory lets routers know what the KV tiers of nodes hold: sidecars announce their tier's contents, and each router keeps an index of them.
//
// A tier tells which pages became readable and which were evicted (package tier, feed). An [Announcer] in the sidecar gathers that for 100 ms and sends it
// over the cluster's messages. An [Index] in each router applies it and answers, for a prompt's tokens, how many of them which node holds.
//
//	file         job
//	announce.go  the sidecar's side
//	wire.go      messages
//	index.go     nodes, their kinds of pages, what look-ups read of them
//	sync.go      learning what a node holds: all of it, or what was lost
//	table.go     pages and who holds them
//	find.go      look-ups
//	memo.go      hashes of prompts that were looked up before
//	status.go    counts
//
// # What is held
//
// A page is named by the first 8 bytes of SGLang's hash, SHA-256 of the page before it and of its tokens, so that the name stands for all tokens up
// to its end. It counts only when all ranks and pools of an engine hold it (tier.Kind). Prompts with an adapter are not known by tokens alone: nothing
// is said for them. In doubt less is said: a wrong word costs a prefill that was not expected.
//
// # How nothing is missed
//
// Each change has a number. A message says where its changes begin, so that one which was lost is noticed by the next, at the latest by the one that
// says, at first after 1 s and then ever less often up to each 10 s, that nothing is new. What is missing is asked for; where the sidecar does not
// remember it, all of the contents, in pieces. A sidecar that starts anew has another number, and so all of its past is dropped. Nodes that the cluster
// does not list are forgotten, and those that were silent for 40 s.
//
// # What a look-up takes
//
// One SHA-256 where no tier has the first page. Else each page costs one look into the table, and a hash where its stretch of 512 tokens was not
// looked up before. A look-up that has hashed some 0.7 MiB, or found 32,768 pages, says no more than that; the next one of the prompt gets further.
//
// # Concurrency
//
// All methods may be called from any goroutine. Index.mu guards what is kept of nodes, and is held by the one who writes the table. Stored does not take
// it: it reads an immutable list of nodes and a table of atomic words, in which a place has the same page as long as the table lives. Each set of
// remembered stretches has a lock, held for one copy; who finds it taken hashes instead. Run starts a goroutine for each node that is being learnt,
// 4 at once, which end with it. SetPlaces must not be called by two at a time.
//
// # Ownership
//
// Nothing that is passed in is kept, but the map given to SetPlaces, which nobody may change any more.
//
// # Errors
//
// [ErrMessage] for what cannot be read. All else is counted and tried again.
package directory
