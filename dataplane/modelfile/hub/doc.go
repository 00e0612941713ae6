// Package hub finds a model that an operator names, such as Qwen/Qwen3-8B, in the local cache of
// Hugging Face's hub, and fetches the files that make token ids where the cache has not got them.
//
// Nothing is asked of the network where the cache has the files, and nothing ever by the word of a
// worker. The cache has the layout of huggingface_hub, which reads the files too:
//
//	CACHE/models--OWNER--MODEL/refs/REVISION                  the commit
//	CACHE/models--OWNER--MODEL/snapshots/COMMIT/FILE          a link to ../../blobs/ETAG
//	CACHE/models--OWNER--MODEL/blobs/ETAG                     the content
//	CACHE/models--OWNER--MODEL/.no_exist/COMMIT/FILE          empty: the hub has no such file
//
// All files of a snapshot are of one commit, which is the ref's where the cache has one. Each
// appears whole, with the checksum that the hub tells, tokenizer.json and the ref last: a reader
// finds all files or none. The format is described at
// https://huggingface.co/docs/hub/local-cache.
//
// # Concurrency
//
// A Hub may be used by any number of goroutines, and a cache by any number of processes: each
// fetches into a file of its own, and renames it.
//
// # Errors
//
// ErrUnavailable is a hub that does not answer as it should, which may pass. ErrRefused is one that
// will not give the files, ErrOffline the operator's wish to ask none: an operator may mend these.
package hub
