"""Models with several pools (register_mem_host_pool_v2), and engines with several ranks: each
pool and each rank has its own pages."""

import unittest

import torch
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer

from .test_backend import PAGE, TOKENS, Case, HostPool, eventually, keys_of, tokens_of


def filled(pool, n):
    """Fills a pool with random pages, and returns copies of them."""
    for p in range(n):
        pool.page(p * PAGE).copy_(torch.randn(pool.page(0).shape))
    return [pool.page(p * PAGE).clone() for p in range(n)]


def transfer(name, keys, pages, policy=PoolHitPolicy.ALL_PAGES):
    return PoolTransfer(name=name, keys=keys, host_indices=tokens_of(pages) if pages else None, hit_policy=policy)


class Pools(Case):
    """The calls of SGLang for a model with an indexer beside its KV, as for sparse attention."""

    PAGES = 20

    def setUp(self):
        super().setUp()
        self.sidecar()

    def engine(self, rank=0, **extra):
        """A backend with its pools registered as by the controller: the anchor, then all of them
        by name."""
        kv, index = HostPool(heads=2), HostPool(heads=1)
        backend = self.backend(kv, rank=rank, **extra)
        backend.register_mem_host_pool_v2(kv, PoolName.KV)
        backend.register_mem_host_pool_v2(index, PoolName.INDEXER)
        backend.on_host_pools_registered()
        self.assertEqual(set(backend.pools), {"kv", "indexer"})
        eventually("connected", lambda: all(p.channel.up for p in backend.pools.values()))
        return backend, kv, index

    def store(self, backend, kv, index, name, index_pages=None):
        """Returns keys and both pools' pages; index_pages limits the stored pages of the index."""
        keys, n = keys_of(name, self.PAGES), self.PAGES if index_pages is None else index_pages
        contents = filled(kv, self.PAGES), filled(index, self.PAGES)
        stored = backend.batch_set_v2([transfer(PoolName.INDEXER, keys[:n], range(n))])
        self.assertEqual(stored, {PoolName.INDEXER: [True] * n})
        self.assertEqual(backend.batch_set_v1(keys, tokens_of(range(self.PAGES))), [True] * self.PAGES)
        eventually("stored", lambda: backend.batch_exists(keys) == self.PAGES and backend.pools["indexer"].exists(keys) == n)
        return keys, contents

    def test_round_trip(self):
        keys, (kvs, indices) = self.store(*self.engine(), "pools")
        b, kv, index = self.engine()
        asked = transfer(PoolName.INDEXER, None, [])
        found = b.batch_exists_v2(keys + keys_of("none", 2), [asked])
        self.assertEqual((found.kv_hit_pages, found.extra_pool_hit_pages), (self.PAGES, {"kv": self.PAGES, PoolName.INDEXER: self.PAGES}))
        self.assertEqual(found.restorable_prefix_pages, list(range(1, self.PAGES + 1)))
        places = range(50, 50 + self.PAGES)
        self.assertEqual(b.batch_get_v1(keys, tokens_of(places)), [True] * self.PAGES)
        self.assertEqual(b.batch_get_v2([transfer(PoolName.INDEXER, keys, places)]), {PoolName.INDEXER: [True] * self.PAGES})
        for place, one, other in zip(places, kvs, indices):
            self.assertTrue(torch.equal(kv.page(place * PAGE), one))
            self.assertTrue(torch.equal(index.page(place * PAGE), other))

    def test_the_shortest_pool_counts(self):
        keys, _ = self.store(*self.engine(), "short", index_pages=7)
        b, _, index = self.engine()
        found = b.batch_exists_v2(keys, [transfer(PoolName.INDEXER, None, [])])
        self.assertEqual((found.kv_hit_pages, found.extra_pool_hit_pages), (7, {"kv": self.PAGES, PoolName.INDEXER: 7}))
        got = b.batch_get_v2([transfer(PoolName.INDEXER, keys, range(self.PAGES))])
        self.assertEqual(got, {PoolName.INDEXER: [True] * 7 + [False] * (self.PAGES - 7)})

    def test_trailing_pools_find_nothing(self):
        """Pages of a sliding window or a state are usable at some lengths only, unknown to the
        backend."""
        b, kv, index = self.engine()
        keys, _ = self.store(b, kv, index, "trailing")
        for policy in (PoolHitPolicy.TRAILING_PAGES, PoolHitPolicy.BLOCK_GROUPS):
            found = b.batch_exists_v2(keys, [transfer(PoolName.INDEXER, keys[-1:], [0], policy)])
            self.assertEqual((found.kv_hit_pages, found.extra_pool_hit_pages), (0, {}))

    def test_a_pool_that_is_not_there(self):
        b, kv, index = self.engine()
        keys, _ = self.store(b, kv, index, "absent")
        self.assertEqual(b.batch_exists_v2(keys, [transfer(PoolName.MAMBA, None, [])]).kv_hit_pages, 0)
        self.assertEqual(b.batch_get_v2([transfer(PoolName.MAMBA, keys, range(self.PAGES))]), {PoolName.MAMBA: [False] * self.PAGES})
        self.assertEqual(b.batch_set_v2([transfer(PoolName.MAMBA, keys, range(self.PAGES))]), {PoolName.MAMBA: [False] * self.PAGES})

    def test_ranks(self):
        """Each rank of an engine stores its own heads, and finds those of the same rank
        elsewhere."""
        first = [self.engine(rank=r) for r in range(2)]
        stored = [self.store(*engine, "ranks") for engine in first]
        keys = stored[0][0]
        names = [[p.space for p in backend.pools.values()] for backend, _, _ in first]
        self.assertEqual(len(set(sum(names, []))), 4)
        for r in range(2):
            self.assertIn(f'"rank":"{r}/2"', names[r][0])
        for r in range(2):
            b, kv, index = self.engine(rank=r)
            self.assertEqual(b.batch_exists_v2(keys, [transfer(PoolName.INDEXER, None, [])]).kv_hit_pages, self.PAGES)
            self.assertEqual(b.batch_get_v1(keys, tokens_of(range(self.PAGES))), [True] * self.PAGES)
            b.batch_get_v2([transfer(PoolName.INDEXER, keys, range(self.PAGES))])
            for p in range(self.PAGES):
                self.assertTrue(torch.equal(kv.page(p * PAGE), stored[r][1][0][p]))
                self.assertTrue(torch.equal(index.page(p * PAGE), stored[r][1][1][p]))
            self.assertFalse(torch.equal(kv.page(0), stored[1 - r][1][0][0]))

    def test_scattered_and_overlong(self):
        """Pages are written to the given tokens only."""
        keys, (kvs, _) = self.store(*self.engine(), "scattered")
        b, kv, _ = self.engine()
        places = [(37 * i + 11) % (TOKENS // PAGE) for i in range(self.PAGES)]
        self.assertEqual(b.batch_get_v1(keys, tokens_of(places)), [True] * self.PAGES)
        for place in range(TOKENS // PAGE):
            want = kvs[places.index(place)] if place in places else torch.zeros_like(kvs[0])
            self.assertTrue(torch.equal(kv.page(place * PAGE), want), place)
        failures = b.failures
        self.assertEqual(b.batch_get_v1(keys[:1], torch.arange(TOKENS, TOKENS + PAGE)), [False])
        self.assertEqual(b.failures, failures + 1)

if __name__ == "__main__":
    unittest.main()
