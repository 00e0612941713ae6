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
// next requests wait for. Rates and places are of this process.
//
// # Concurrency
//
// [Keys.Find] and the methods of a [Key] may be called from any goroutine, and do not allocate.
// Find is one atomic load and a hash; a Key has a lock that is held for a few comparisons.
// [Keys.Run] follows the file, in one goroutine.
//
// # Ownership
//
// A Key does not change. After a change of the file, Find returns another Key, which goes on with
// the rates and places of the one of the same name.
//
// # Errors
//
// [ErrFile] is a file that cannot be used. A request beyond a limit gets a *[LimitError].
package clientkey
