package tokens

import "unsafe"

// ShardSize lets a test see that shards keep their locks on lines of their own.
const ShardSize = unsafe.Sizeof(shard{})

// SizeFor is sizeFor.
var SizeFor = sizeFor
