"""Updates of weights: use of the tier before, during and after them."""

import gc
import json
import os
import signal
import threading
import unittest
from unittest import mock

import torch

from warmpath_sglang import identity, weights, wire
from warmpath_sglang.weights import Weights

from .test_backend import PATIENCE, Case, HostPool, Model, Runner, Scheduler, eventually, keys_of, states, tokens_of


def notify(event):
    weights._notify(event)


class change:
    """An update of weights."""

    def __init__(self, scheduler, seed=None):
        self.scheduler, self.seed = scheduler, seed

    def __enter__(self):
        notify("begin")
        if self.seed is not None:
            for parameter, new in zip(self.scheduler.model.parameters(), Model(self.seed).parameters()):
                parameter.data.copy_(new)

    def __exit__(self, *_):
        notify("end")


class AgainstSidecar(Case):
    def setUp(self):
        super().setUp()
        self.process = self.sidecar()
        self.pool = HostPool()
        self.scheduler = Scheduler()
        self.engine = self.backend(self.pool, scheduler=self.scheduler)

    def up(self, backend):
        eventually("connected", lambda: backend.pools["kv"].channel.up)

    def stats(self, backend):
        return json.loads(backend.pools["kv"].channel.exists.call(wire.STATS, b"", PATIENCE))

    def read(self, backend, keys):
        return backend.batch_get_v1(keys, tokens_of(range(len(keys))))

    def test_another_identity(self):
        keys, _ = self.stored(self.engine, self.pool, "identity")
        other = self.backend(HostPool(), scheduler=Scheduler(Model(1)))
        self.assertEqual(other.batch_exists(keys), 0)
        rope = self.backend(HostPool(), scheduler=Scheduler(rope_theta=500000.0))
        self.assertEqual(rope.batch_exists(keys), 0)
        elsewhere = self.backend(HostPool(), scheduler=Scheduler(_name_or_path="/models/copy"))
        self.assertEqual(elsewhere.batch_exists(keys), len(keys))
        self.assertEqual(self.read(elsewhere, keys), [True] * len(keys))

    def test_update(self):
        keys, _ = self.stored(self.engine, self.pool, "update")
        n = len(keys)
        with change(self.scheduler, seed=1):
            self.assertEqual(self.engine.batch_exists(keys), 0)
            self.assertEqual(self.read(self.engine, keys), [False] * n)
            self.assertEqual(self.engine.batch_set_v1(keys, tokens_of(range(n))), [False] * n)
        self.assertEqual(self.engine.batch_exists(keys), 0)
        again, contents = self.stored(self.engine, self.pool, "after the update")
        updated = self.backend(second := HostPool(), scheduler=Scheduler(Model(1)))
        self.assertEqual(self.read(updated, again), [True] * n)
        self.assertTrue(torch.equal(second.page(0), contents[0]))
        # The old pages are dropped, since no engine has those weights any more.
        eventually("dropped", lambda: self.stats(self.engine)["namespaces"] == 1)
        old = self.backend(HostPool(), scheduler=Scheduler())
        self.assertEqual(old.batch_exists(keys), 0)

    def test_an_engine_that_keeps_its_weights_keeps_their_pages(self):
        other = self.backend(HostPool(), scheduler=Scheduler())
        keys, _ = self.stored(self.engine, self.pool, "keeps")
        weights._watchers.discard(other._weights)  # as if in another process
        with change(self.scheduler, seed=1):
            pass
        self.up(self.engine)
        self.assertEqual(self.engine.batch_exists(keys), 0)
        self.assertEqual(other.batch_exists(keys), len(keys))

    def test_update_without_flush(self):
        keys, _ = self.stored(self.engine, self.pool, "no flush")
        self.scheduler.tokens = 100
        with change(self.scheduler, seed=1):
            pass
        self.up(self.engine)
        n = len(keys)
        self.assertEqual(self.engine.batch_set_v1(keys, tokens_of(range(n))), [False] * n)
        with change(self.scheduler):  # an update without a change does not make the old KV valid
            pass
        self.assertEqual(self.engine.batch_set_v1(keys, tokens_of(range(n))), [False] * n)
        self.scheduler.tokens = 0
        notify("flushed")
        self.stored(self.engine, self.pool, "no flush")

    def test_update_that_fails(self):
        self.scheduler.tokens = 100
        keys, _ = self.stored(self.engine, self.pool, "fails")
        channel = self.engine.pools["kv"].channel
        with change(self.scheduler):
            pass
        self.assertEqual(self.engine.batch_exists(keys), len(keys))
        self.assertIs(self.engine.pools["kv"].channel, channel)

    def test_session(self):
        """Weights may be unusable between the updates of a session."""
        self.scheduler.tokens = 100
        keys, _ = self.stored(self.engine, self.pool, "session")
        notify("begin_session")
        with change(self.scheduler, seed=1):
            pass
        notify("flushed")
        self.scheduler.tokens = 0
        self.assertEqual(self.engine.batch_exists(keys), 0)
        self.assertEqual(self.engine.batch_set_v1(keys, tokens_of(range(len(keys)))), [False] * len(keys))
        notify("end")
        self.stored(self.engine, self.pool, "after the session")

    def test_session_with_requests_in_it(self):
        self.scheduler.tokens = 100
        keys, _ = self.stored(self.engine, self.pool, "requests")
        notify("begin_session")
        notify("end")
        self.assertEqual(self.engine.batch_exists(keys), 0)
        self.scheduler.tokens = 0
        notify("flushed")
        self.assertEqual(self.engine.batch_exists(keys), len(keys))

    def test_change_without_a_hook(self):
        keys, _ = self.stored(self.engine, self.pool, "untold")
        self.scheduler.model.layer.weight.data[0, 0] += 1
        notify("flushed")
        self.up(self.engine)
        self.assertEqual(self.engine.batch_exists(keys), 0)

    def test_get_that_an_update_overtakes(self):
        keys, _ = self.stored(self.engine, self.pool, "overtaken")
        pages, began, go = self.engine.pools["kv"].pages, threading.Event(), threading.Event()
        scatter = pages.scatter

        def slow(*args):
            began.set()
            go.wait()
            scatter(*args)

        pages.scatter = slow
        got = []
        reader = threading.Thread(target=lambda: got.append(self.read(self.engine, keys)))
        reader.start()
        began.wait()
        notify("begin")
        go.set()
        reader.join()
        notify("end")
        self.assertEqual(got, [[False] * len(keys)])

    def test_set_that_an_update_overtakes(self):
        pool = HostPool(shared=False)
        engine = self.backend(pool, scheduler=Scheduler())
        pages, began, go = engine.pools["kv"].pages, threading.Event(), threading.Event()
        gather = pages.gather

        def slow(*args):
            gather(*args)
            began.set()
            go.wait()

        pages.gather = slow
        keys, got = keys_of("set", 4), []
        writer = threading.Thread(target=lambda: got.append(engine.batch_set_v1(keys, tokens_of(range(4)))))
        writer.start()
        began.wait()
        notify("begin")
        go.set()
        writer.join()
        notify("end")
        self.assertEqual(got, [[False] * 4])
        eventually("connected", lambda: engine.pools["kv"].channel.up)
        self.assertEqual(engine.batch_exists(keys), 0)

    def test_an_sglang_that_changes_weights_elsewhere(self):
        with mock.patch.object(weights, "_hooked", False), mock.patch.dict(weights._HOOKS, {("begin", "end"): ("os:no_such_update",)}):
            backend = self.backend(HostPool(), connected=False)
        keys, _ = self.stored(self.engine, self.pool, "elsewhere")
        self.assertEqual(backend.batch_exists(keys), 0)
        self.assertEqual(backend.batch_set_v1(keys, tokens_of(range(len(keys)))), [False] * len(keys))
        self.assertEqual(self.read(backend, keys), [False] * len(keys))

    def test_weights_that_leave_the_memory(self):
        """release_memory_occupation and resume: the backend does not read the weights in
        between."""
        keys, _ = self.stored(self.engine, self.pool, "released")
        notify("begin_session")
        with mock.patch.object(identity, "tensors_of", side_effect=AssertionError("released")):
            notify("flushed")
            self.assertEqual(self.engine.batch_exists(keys), 0)
        notify("end")
        self.assertEqual(self.engine.batch_exists(keys), len(keys))

    def test_clear(self):
        other = self.backend(HostPool(), rank=1, scheduler=Scheduler())
        keys, _ = self.stored(self.engine, self.pool, "clear")
        other.batch_set_v1(keys, tokens_of(range(len(keys))))
        eventually("stored", lambda: other.batch_exists(keys) == len(keys))
        self.engine.clear()
        self.assertEqual(self.engine.batch_exists(keys), 0)
        self.assertEqual(other.batch_exists(keys), 0)
        self.assertEqual(self.read(self.engine, keys), [False] * len(keys))
        self.stored(self.engine, self.pool, "clear")

    def test_clear_while_the_sidecar_is_stopped(self):
        backend = self.backend(HostPool(), scheduler=Scheduler(), warmpath_set_timeout=0.5, warmpath_exists_timeout=5)
        keys, _ = self.stored(self.engine, self.pool, "stopped")
        self.process.send_signal(signal.SIGSTOP)
        eventually("stopped", lambda: set(states(self.process.pid)) == {"T"})
        with self.assertRaises(Exception):
            backend.clear()
        self.assertEqual(backend.batch_exists(keys), 0)
        self.process.send_signal(signal.SIGCONT)
        eventually("cleared", lambda: not backend._clear_pending or backend.batch_exists(keys) < 0)
        self.assertEqual(backend.batch_exists(keys), 0)
        self.assertEqual(self.engine.batch_exists(keys), 0)

    def test_connections_end_with_their_namespaces(self):
        """Each update makes new connections, and closes the old ones."""
        before = len(os.listdir("/proc/self/fd"))
        for seed in range(1, 8):
            with change(self.scheduler, seed=seed):
                pass
            self.up(self.engine)
        def back():
            gc.collect()
            return len(os.listdir("/proc/self/fd")) <= before

        eventually("closed", back)


class Following(unittest.TestCase):
    """The class Weights without a backend."""

    def watch(self, scheduler, ranks=None):
        seen = []
        w = Weights(scheduler, lambda allowed, name=None: seen.append((allowed, name)), ranks)
        self.addCleanup(w.close)
        return w, seen

    def test_hooks_are_where_this_sglang_changes_weights(self):
        weights.hook()
        for paths in weights._HOOKS.values():
            for path in paths:
                owner, name = weights._resolve(path)
                self.assertTrue(hasattr(getattr(owner, name), "__wrapped__"), path)

    def test_hook(self):
        _, seen = self.watch(Scheduler())
        del seen[:]
        during = []

        def update(self, path, fail=False, **_):
            during.append(seen[-1:])
            if fail:
                raise OSError("no such path")
            return True, path

        hooked = weights._wrap(update, "begin", "end")
        self.assertEqual(hooked(self, "p"), (True, "p"))
        self.assertEqual(during.pop(), [(None, None)])
        self.assertIsNotNone(seen[-1][0])
        with self.assertRaises(OSError):
            hooked(self, "p", fail=True)
        self.assertIsNotNone(seen[-1][0])
        hooked(self, "p", weight_name_filter=None)
        self.assertEqual(during[-1], seen[-1:])

    def test_without_a_model(self):
        """Unreadable weights get a random identity."""
        a, _ = self.watch(None)
        b, _ = self.watch(None)
        self.assertNotEqual(a.identity, b.identity)
        before = a.identity
        notify("flushed")
        self.assertNotEqual(a.identity, before)

    def test_ranks(self):
        """Ranks share one identity, which changes with the weights of any rank."""
        store = {}

        class Ranks:
            size = 2

            def __init__(self, rank):
                self.rank = rank

            def agree(self, number, local, wanted):
                store[self.rank] = local
                eventually("all ranks", lambda: len(store) == 2)
                return " ".join(store[r] for r in range(2))

        schedulers = Scheduler(), Scheduler(Model(7))
        a, b = (self.watch(s, Ranks(i))[0] for i, s in enumerate(schedulers))
        eventually("agreed", lambda: a.identity and a.identity == b.identity)
        before = a.identity
        store.clear()
        with change(schedulers[1], seed=9):
            pass
        eventually("agreed again", lambda: a.identity == b.identity != before)

    def test_store_of_ranks(self):
        import torch.distributed as dist

        store = dist.HashStore()
        found = []

        def rank(n):
            r = object.__new__(weights.Ranks)
            r.rank, r.size, r._store = n, 2, store
            found.append(r.agree(1, f"weights {n}", lambda: True))

        threads = [threading.Thread(target=rank, args=(n,)) for n in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(found), 2)
        self.assertEqual(found[0], found[1])


class Identity(unittest.TestCase):
    def of(self, model, **config):
        return identity.fingerprint([("target", Runner(model, **config))])

    def test_content(self):
        self.assertEqual(self.of(Model()), self.of(Model(), transformers_version="5", _name_or_path="elsewhere"))
        self.assertNotEqual(self.of(Model()), self.of(Model(1)))
        self.assertNotEqual(self.of(Model()), self.of(Model(), rope_scaling={"type": "yarn", "factor": 4.0}))
        other = Model()
        other.layer.bias.data[3] += 1e-6
        self.assertNotEqual(self.of(Model()), self.of(other))

    def test_derived_tensors_do_not_count(self):
        other = Model()
        other.cos_sin_cache.data.zero_()
        self.assertEqual(self.of(Model()), self.of(other))

    def test_adapters(self):
        from types import SimpleNamespace

        from sglang.srt.lora.lora_registry import LoRARef

        def runner(value, lora_id=None):
            r = Runner(Model())
            ref = LoRARef(lora_name="a", lora_path="/a", **({"lora_id": lora_id} if lora_id else {}))
            layer = SimpleNamespace(weights={"q": torch.full((2, 2), value)})
            adapter = SimpleNamespace(scaling=1.0, layers=[layer], embedding_layers={}, added_tokens_embeddings={})
            r.lora_manager = SimpleNamespace(lora_refs={ref.lora_id: ref}, loras={ref.lora_id: adapter})
            return identity.fingerprint([("target", r)])

        stable = LoRARef.deterministic_id("a", "/a")
        self.assertNotEqual(runner(1.0, stable), runner(2.0, stable))
        self.assertEqual(runner(1.0), runner(2.0))  # random ids are ignored
        self.assertEqual(runner(1.0, stable), runner(1.0, stable))

    def test_strided_tensors(self):
        base = torch.arange(24.0).reshape(4, 6)
        self.assertEqual(identity._hash(base.t()), identity._hash(base.t().contiguous()))
        self.assertNotEqual(identity._hash(base), identity._hash(base + 1))

    def test_sample_sees_both_ends(self):
        model = torch.nn.Linear(1000, 1)
        runners = [("target", Runner(model))]
        for at in (0, 500, 999):
            before = identity.sample(runners)
            model.weight.data[0, at] += 1
            self.assertNotEqual(identity.sample(runners), before)

    def test_text_of_a_configuration_has_no_addresses(self):
        class Thing:
            pass

        self.assertEqual(identity._plain({"x": [Thing()], "d": torch.float16}), identity._plain({"x": [Thing()], "d": torch.float16}))


if __name__ == "__main__":
    unittest.main()
