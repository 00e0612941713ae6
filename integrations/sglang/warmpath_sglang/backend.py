"""The HiCache storage backend that `--hicache-storage-backend dynamic` loads.

Every call ends within its deadline and raises nothing; at worst it finds no page, and SGLang
computes. Pages move through shared memory: this process writes its own pool only, and the sidecar
its own memory only, so neither can damage the other, even when late.
"""

import functools
import json
import logging
import os
import threading
import time

import sglang
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolHitPolicy, PoolTransferResult

from . import __version__, identity, layout, wire
from .channel import Channel, Down
from .weights import Weights

logger = logging.getLogger("warmpath")

DEFAULT_SOCKET = "/run/warmpath/kv-tier.sock"
# In seconds. SGLang's wait_complete policy waits for these calls, so a request loses at most this
# much to a hanging sidecar, once: the connection is then down, and calls fail at once until it
# answers.
DEADLINES = {"exists": 0.25, "get": 1.0, "set": 2.0}
LEASE = 10.0  # for which the sidecar keeps pages that are being read


class Settings:
    """This backend's fields of --hicache-storage-backend-extra-config."""

    def __init__(self, extra):
        self.socket = extra.get("warmpath_socket") or os.environ.get("WARMPATH_KV_TIER_SOCKET") or DEFAULT_SOCKET
        self.namespace = extra.get("warmpath_namespace", "")
        self.deadlines = {k: float(extra.get(f"warmpath_{k}_timeout", v)) for k, v in DEADLINES.items()}
        # The sidecar's time to ask other nodes before it answers: 60 % of the deadline.
        self.peers_ms = {k: int(v * 600) for k, v in self.deadlines.items()}


def never_raises(default):
    """Makes a method return default(arguments) instead of raising."""

    def wrap(method):
        @functools.wraps(method)
        def call(self, *args, **kwargs):
            try:
                return method(self, *args, **kwargs)
            except Down:
                self.failures += 1
            except Exception:
                self.failures += 1
                now = time.monotonic()
                if now - self._logged > 30:
                    self._logged = now
                    logger.exception("the KV tier's backend failed in %s; SGLang computes", method.__name__)
            return default(*args, **kwargs)

        return call

    return wrap


def _none_of(keys, *_, **__):
    return [False] * len(keys)


class Pool:
    """One host pool of the engine and its namespace in the tier, which includes the weights."""

    def __init__(self, settings, config, pool, name):
        self.settings, self.name = settings, name
        self.page_tokens = getattr(pool, "page_size", 1) or 1
        self._host = pool  # owns the memory of the views below
        parts = layout.pieces_of(pool, self.page_tokens)
        self.pages = layout.Pages(parts, getattr(pool, "size", 0) or 0, self.page_tokens)
        self._regions = layout.shared_regions(pool)
        self._located = layout.locate(parts, self._regions)
        self.bounce = None
        if self._located is None:
            logger.warning('the host pool is private, so each page is copied twice; set "allocator": "shm" in the extra config')
            count = max(1, min(128, (64 << 20) // self.pages.page_bytes))
            self.bounce = layout.BounceBuffer(self.pages.page_bytes, count)
            self._bounced = self.pages.views(self.bounce.tensor)
            self._regions, self._located = [(self.bounce.fd, 0, 0)], self.bounce.pieces()
        self._fields = namespace_fields(settings, config, pool, name)
        self._weights = self.space = None
        self.channel = None  # of the present namespace, usable or not
        self._permit = None  # replaced whenever use of the channel is allowed again
        self._arena = None  # the channel's arena, and views of its pages

    def rename(self, weights):
        """Moves to the namespace of other weights. This engine can no longer use the pages of the
        old namespace; the sidecar drops them where no other engine uses it."""
        if weights == self._weights:
            return
        old, self._weights = self.channel, weights
        self.space = json.dumps({**self._fields, "weights": weights}, separators=(",", ":"))
        hello = wire.hello(self.page_tokens, self.space, len(self._regions), self._located)
        self.channel = Channel(self.settings.socket, hello, [fd for fd, _, _ in self._regions])
        if old is not None:
            old.close(last=wire.RETIRE)

    def allow(self, allowed):
        self._permit = Permit(self.channel) if allowed and self.channel is not None else None

    def _begin(self, seconds):
        """The permit to use the channel now. A new channel gets time to connect."""
        permit = self._permit
        if permit is None:
            raise Down("the weights are changing, or the engine holds KV of other weights")
        permit.channel.tried.wait(seconds)
        return permit

    def _check(self, permit):
        if self._permit is not permit:
            raise Down("the weights have changed during the call")

    def exists(self, keys):
        seconds = self.settings.deadlines["exists"]
        permit = self._begin(seconds)
        body = wire.exists(keys, self.settings.peers_ms["exists"])
        count = wire.parse_count(permit.channel.exists.call(wire.EXISTS, body, seconds), len(keys))
        self._check(permit)
        return count

    def tokens(self, keys, host_indices):
        """The index of each page's first token."""
        if host_indices.numel() != len(keys) * self.page_tokens:
            raise ValueError(f"{host_indices.numel()} tokens for {len(keys)} pages of {self.page_tokens}")
        return host_indices[:: self.page_tokens].tolist()

    def get(self, keys, host_indices):
        tokens = self.tokens(keys, host_indices)
        seconds = self.settings.deadlines["get"]
        permit = self._begin(seconds)
        connection = permit.channel.get
        asked = time.monotonic()

        def copy(arena, answer, number):
            offsets = wire.parse_offsets(answer, len(keys))
            if wire.ABSENT in offsets:
                offsets = offsets[: offsets.index(wire.ABSENT)]  # SGLang uses leading pages only
            if offsets and max(offsets) + self.pages.page_bytes > arena.length:
                raise wire.WireError(f"a page at {max(offsets)} of {arena.length} bytes")
            self.pages.scatter(self._arena_views(arena), offsets, tokens[: len(offsets)])
            # The lease began after the question. Bytes read after its end may be another page's.
            late = time.monotonic() - asked >= LEASE
            connection.tell(wire.RELEASE, wire.sequence(number), time.monotonic() + seconds)
            if late:
                raise Down("the copy outlasted its lease")
            return [True] * len(offsets) + [False] * (len(keys) - len(offsets))

        body = wire.get(keys, int(LEASE * 1000), self.settings.peers_ms["get"])
        got = connection.call(wire.GET, body, seconds, then=copy)
        self._check(permit)
        return got

    def _arena_views(self, arena):
        if self._arena is None or self._arena[0] is not arena:
            self._arena = (arena, self.pages.views(layout.readable(arena.memory)))
        return self._arena[1]

    def set(self, keys, host_indices, parent):
        tokens = self.tokens(keys, host_indices)
        permit = self._begin(self.settings.deadlines["set"])
        stored = []
        step = len(keys) if self.bounce is None else self.bounce.pages
        for at in range(0, len(keys), step):
            some = keys[at : at + step]
            stored += self._set(permit, some, self._reachable(tokens[at : at + step]), parent)
            parent = some[-1]
        return stored

    def _reachable(self, tokens):
        if self.bounce is None:
            return tokens
        self.pages.gather(self._bounced, range(0, len(tokens) * self.bounce.page_bytes, self.bounce.page_bytes), tokens)
        return range(len(tokens))

    def _set(self, permit, keys, tokens, parent):
        connection, seconds = permit.channel.set, self.settings.deadlines["set"]

        def confirm(_, answer, number):
            results = wire.parse_results(answer, len(keys))
            self._check(permit)
            # Only this process knows that its pages did not change during the sidecar's copy.
            connection.tell(wire.COMMIT, wire.sequence(number), time.monotonic() + seconds)
            return [r != 0 for r in results]

        flags, body = wire.set_(keys, tokens, parent)
        return connection.call(wire.SET, body, seconds, flags=flags, then=confirm)

    def clear(self):
        """Drops all pages of the model, of any weights, here and at peers."""
        seconds = self.settings.deadlines["set"]
        if self.channel is None:
            raise Down("the weights are not known yet")
        self.channel.tried.wait(seconds)
        return wire.parse_cleared(self.channel.set.call(wire.CLEAR, wire.clear(int(seconds * 600)), seconds))

    def close(self):
        self._permit = None
        if self.channel is not None:
            self.channel.close()


class Permit:
    """Permission to use a channel, valid until the weights change."""

    def __init__(self, channel):
        self.channel = channel


def namespace_fields(settings, config, pool, name):
    """All that separates namespaces, besides the weights. Pages of an MLA model are equal on
    every rank. LoRA adapters, extra_key and cache_salt are in SGLang's page hashes."""
    rank = "all" if config.is_mla_model else f"{config.tp_rank}/{config.tp_size}"
    device = getattr(pool, "device_pool", None)
    return {
        "model": config.model_name or "",
        "rank": rank,
        "pp": f"{config.pp_rank}/{config.pp_size}",
        "cp": f"{config.attn_cp_rank}/{config.attn_cp_size}",
        "pool": str(name),
        "form": layout.layout_name(pool),
        "dtype": str(getattr(pool, "dtype", "")),
        "tokens": getattr(pool, "page_size", 1) or 1,
        "layers": getattr(pool, "layer_num", 0),
        "heads": getattr(pool, "head_num", 0),
        "kinds": [type(pool).__name__, type(device).__name__ if device is not None else ""],
        "versions": [sglang.__version__, __version__],
        "own": settings.namespace,
    }


class WarmpathStorage(HiCacheStorage):
    """SGLang's third level in the node's KV tier."""

    def __init__(self, storage_config, kwargs=None):
        self.config = storage_config
        self.settings = Settings(storage_config.extra_config or {})
        self.pools = {}
        self.failures = 0
        self._logged = -1e9
        self._lock = threading.RLock()  # guards the fields below
        self._name = self._allowed = None  # the weights' identity, and while use is allowed
        self._clear_pending = False
        try:
            self._weights = Weights(identity.find_scheduler(), self._weights_changed)
        except Exception as error:
            self._weights = None
            logger.warning("no KV tier: updates of weights cannot be tracked: %s", error)

    def _register(self, pool, name):
        with self._lock:
            if name in self.pools:
                return
            try:
                self.pools[name] = Pool(self.settings, self.config, pool, name)
            except Exception as error:  # a pool of unknown layout is used without the tier
                logger.warning("the KV tier cannot hold the pool %s: %s", name, error)
                self.pools[name] = None
            self._apply()

    def _weights_changed(self, allowed, name=None):
        with self._lock:
            self._allowed, self._name = allowed, name or self._name
            self._apply()

    def _apply(self):
        """Moves all pools to the present namespace, and allows or forbids their use."""
        for pool in self.pools.values():
            if pool is None:
                continue
            pool.allow(False)
            if self._name is not None:
                pool.rename(self._name)
            pool.allow(self._allowed is not None and not self._clear_pending)

    def register_mem_pool_host(self, mem_pool_host):
        super().register_mem_pool_host(mem_pool_host)
        self._register(mem_pool_host, "kv")

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._register(host_pool, str(host_pool_name))

    def _pool(self, name="kv"):
        if self._weights is not None:
            self._weights.settled.wait(self.settings.deadlines["exists"])
        if self._clear_pending:
            self._clear()
        pool = self.pools.get(str(name))
        if pool is None:
            raise Down(f"no pool {name}")
        return pool

    # SGLang calls these with interface_v1: all pages of a prompt, and at most 128 to read or store.

    @never_raises(lambda *_, **__: 0)
    def batch_exists(self, keys, extra_info=None):
        return self._pool().exists(keys) if keys else 0

    @never_raises(_none_of)
    def batch_get_v1(self, keys, host_indices, extra_info=None):
        return self._pool().get(keys, host_indices) if keys else []

    @never_raises(_none_of)
    def batch_set_v1(self, keys, host_indices, extra_info=None):
        return self._pool().set(keys, host_indices, _parent(extra_info)) if keys else []

    # For models with several pools. Only pools that need all pages of a prefix use the tier.

    @never_raises(lambda *_, **__: PoolTransferResult.empty())
    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        if not keys or any(t.hit_policy != PoolHitPolicy.ALL_PAGES for t in pool_transfers or []):
            return PoolTransferResult.empty()
        kv = self._pool().exists(keys)
        hits = {"kv": kv} if kv else {}
        usable = kv
        for transfer in pool_transfers or []:
            hits[transfer.name] = n = self._pool(transfer.name).exists(keys[:kv]) if kv else 0
            usable = min(usable, n)
        return PoolTransferResult(usable, hits, list(range(1, usable + 1)))

    @never_raises(lambda transfers, *_, **__: {t.name: [False] * len(t.keys or []) for t in transfers})
    def batch_get_v2(self, transfers, extra_info=None):
        return {t.name: self._pool(t.name).get(t.keys, t.host_indices) if t.keys else [] for t in transfers}

    @never_raises(lambda transfers, *_, **__: {t.name: [False] * len(t.keys or []) for t in transfers})
    def batch_set_v2(self, transfers, extra_info=None):
        return {t.name: self._pool(t.name).set(t.keys, t.host_indices, _parent(extra_info)) if t.keys else [] for t in transfers}

    # The older interface passes tensors. Its methods are abstract, so they must exist;
    # "interface_v1": 1 avoids them.

    def get(self, key, target_location=None, target_sizes=None):
        return None

    def batch_get(self, keys, target_locations=None, target_sizes=None):
        return [None] * len(keys)

    def set(self, key, value=None, target_location=None, target_sizes=None):
        return False

    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        return False

    def exists(self, key):
        return self.batch_exists([key]) == 1

    def get_stats(self):
        return None

    def clear(self):
        """Drops all pages of this model, here and at peers. Where the sidecar does not answer,
        nothing is read or stored until it does: cleared pages must not come back."""
        with self._lock:
            self._clear_pending = True
            self._apply()
        self._clear()

    def _clear(self):
        pools = [pool for pool in self.pools.values() if pool is not None]
        if pools:
            dropped, told, missing = pools[0].clear()
            logger.info("cleared %d pages of the KV tier; %d other nodes cleared theirs, %d are out of reach", dropped, told, missing)
        with self._lock:
            self._clear_pending = False
            self._apply()

    def close(self):
        if self._weights is not None:
            self._weights.close()
        with self._lock:
            for pool in self.pools.values():
                if pool is not None:
                    pool.close()
            self.pools = {}


def _parent(extra_info):
    """The page before the first one, if SGLang passes it (hicache_storage_pass_prefix_keys)."""
    keys = getattr(extra_info, "prefix_keys", None)
    return keys[-1] if keys else None
