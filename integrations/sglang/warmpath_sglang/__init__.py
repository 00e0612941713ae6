"""SGLang's third cache level in the KV tier of the node's Warmpath sidecar.

`backend.WarmpathStorage` is what `--hicache-storage-backend dynamic` loads. `channel` talks to the sidecar, `form` knows how a host
pool's pages lie in memory, `wire` is the protocol. `weights` follows changes of the engine's weights, and `identity` names them. Only
`backend`, `weights` and `identity` look into SGLang.
"""

__version__ = "0.1.0"
