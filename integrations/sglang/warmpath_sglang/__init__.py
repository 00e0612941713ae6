"""HiCache storage backend: SGLang's third cache level in the KV tier of the node's sidecar.

`--hicache-storage-backend dynamic` loads `backend.WarmpathStorage`. `channel` holds the
connections to the sidecar, `layout` describes the pages of a host pool, `wire` is the protocol.
`weights` tracks updates of the engine's weights, and `identity` hashes them. Only `backend`,
`weights` and `identity` use SGLang's classes.
"""

__version__ = "0.1.0"
