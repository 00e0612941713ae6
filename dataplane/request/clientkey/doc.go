// Package clientkey knows the API keys of clients: a file with their hashes, and the models, rates
// and rights of each.
//
// A line of the file is "NAME HASH[,HASH] [LIMIT=VALUE …]"; # begins a comment. HASH is the SHA-256
// of a key in 64 hex digits. A plain hash is right for keys as [Line] makes them, of 256 random
// bits: nobody can try that many. A slow or salted hash protects secrets that people choose.
//
// Rates are token buckets: a minute's worth can be had at once and comes back evenly. A request
// takes the tokens of its prompt, which are known or estimated, before it is sent. Its answer takes
// the generated ones at its end, and corrects the estimate. So answers can leave a debt, which the
// next requests wait for.
//
// # Several routers
//
// With [Keys.Share] the routers of a cluster keep the limits together. Each tells the others
// the use of its clients, 5 ms after the last message at the earliest, and counts theirs as its
// own. Between a message and its return from the bus, behind all that others had said before, a
// router lets in an equal share of the rest, of N routers 1/N, and has a request beyond it wait for
// the message, 100 ms at most. Others wait for nothing.
//
// So a client gets all of its limit, by one router or by many, and of requests that reach N routers
// at one instant less than twice the limit, however late messages are: each has let in its share
// before it hears of the others. The excess of a rate is a debt of the next minute; places
// are free when the requests end.
//
// Routers that hear nothing, of a NATS that is down, keep to 1/N of each limit, N being the last
// number. A router that is alone without hearing belongs to N for good, and a router that starts
// then gives the whole limit. One that hears the others and misses one for 3 s forgets it: its
// places and its share are free. Two halves of a split NATS cluster so give the limit twice. Use
// in the meantime counts when they meet again, some of it twice where more than two meet, but no
// more than was missing at the router that tells it. A new router takes over the
// levels of the rates from the others. The word of one of them leaves a debt of at most a minute's
// worth, and of tokens those of one long request more.
//
// Routers with one token, or with the secret of the cluster, believe each other so. The word of
// routers with other tokens takes no more of a limit than their part, and leaves no debt: of N
// tokens the routers of each have 1/N, by however many names they speak. Where a client uses up its
// limit with the routers of one token, those of the others let in their parts besides: less than
// twice the limit in all.
//
// # Concurrency
//
// [Keys.Find] and the methods of a [Key] may be called from any goroutine, and do not allocate.
// Find is one atomic load and a hash; a Key has a lock that is held for a few comparisons.
// [Keys.Run] follows the file and [Keys.Share] tells other routers, each in one goroutine; the bus
// calls back on its own.
//
// # Ownership
//
// A Key does not change. After a change of the file, Find returns another Key, which goes on with
// the rates and places of the one of the same name, also where the file lacked it for a while.
//
// # Errors
//
// [ErrFile] is a file that cannot be used. A request beyond a limit gets a *[LimitError].
package clientkey
