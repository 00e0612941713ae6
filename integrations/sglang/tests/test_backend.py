"""Tests of the backend with a real sidecar ($WARMPATH_BINARY), and with faulty ones."""

import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from types import SimpleNamespace
from unittest import mock

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig, HiCacheStorageExtraInfo
from sglang.srt.mem_cache.pool_host.common import get_allocator_from_storage

from warmpath_sglang import identity, layout, wire
from warmpath_sglang.backend import WarmpathStorage
from warmpath_sglang.channel import Channel

PATIENCE = 120.0  # for events that a busy machine delays
# Far beyond the defaults, so that a stall of the machine does not look like a dead sidecar.
UNHURRIED = {f"warmpath_{call}_timeout": 60 for call in ("exists", "get", "set")}
PAGE, LAYERS, HEADS, DIM, TOKENS = 4, 3, 2, 16, 512


class HostPool:
    """A host pool as SGLang's MHATokenToKVPoolHost lays it out."""

    def __init__(self, layout="layer_first", shared=True, heads=HEADS):
        self.layout, self.page_size, self.size = layout, PAGE, TOKENS
        self.layer_num, self.head_num, self.head_dim, self.dtype = LAYERS, heads, DIM, torch.bfloat16
        if layout == "layer_first":
            dims = (2, LAYERS, TOKENS, heads, DIM)
        elif layout == "page_first":
            dims = (2, TOKENS, LAYERS, heads, DIM)
        else:
            dims = (2, TOKENS // PAGE, LAYERS, PAGE, heads, DIM)
        self.allocator = get_allocator_from_storage("shm" if shared else "default")
        self.kv_buffer = self.allocator.allocate(dims, dtype=self.dtype, device="cpu").zero_()

    def get_page_buffer_meta(self, indices):
        """The answers of SGLang's pool for these layouts."""
        base, row = self.kv_buffer.data_ptr(), self.head_num * DIM * 2
        half = self.kv_buffer.numel()  # bytes of K: two for each number
        pointers = []
        for index in indices.tolist()[::PAGE]:
            if self.layout == "layer_first":
                for layer in range(LAYERS):
                    k = base + index * row + layer * TOKENS * row
                    pointers += [k, k + half]
            else:
                k = base + index * LAYERS * row
                pointers += [k, k + half]
        size = PAGE * row * (1 if self.layout == "layer_first" else LAYERS)
        return pointers, [size] * len(pointers)

    def page(self, token):
        """[2, layer, token, head, dim] of the page that begins there."""
        if self.layout == "layer_first":
            return self.kv_buffer[:, :, token : token + PAGE]
        if self.layout == "page_first":
            return self.kv_buffer[:, token : token + PAGE].transpose(1, 2)
        return self.kv_buffer[:, token // PAGE]


def keys_of(name, n):
    keys, digest = [], b""
    for i in range(n):
        digest = hashlib.sha256(digest + f"{name} {i}".encode()).digest()
        keys.append(digest.hex())
    return keys


def tokens_of(pages):
    """host_indices of pages, by their indices in the pool."""
    return torch.cat([torch.arange(p * PAGE, (p + 1) * PAGE, dtype=torch.int64) for p in pages])


def eventually(event, ok):
    end = time.monotonic() + PATIENCE
    while not ok():
        if time.monotonic() > end:
            raise AssertionError(f"{event}: not after {PATIENCE} s")
        time.sleep(0.01)


def states(pid):
    """The states of a process's threads, from /proc."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as f:
            found.append(f.read().rpartition(")")[2].split()[0])
    return found


class Model(torch.nn.Module):
    """Some weights."""

    def __init__(self, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("cos_sin_cache", torch.rand(4))
        for parameter in self.parameters():
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator))


class HFConfig:
    def __init__(self, **fields):
        self.fields = {"rope_theta": 10000.0, "_name_or_path": "/models/m", **fields}

    def to_dict(self):
        return dict(self.fields)


class Runner:
    lora_manager = None

    def __init__(self, model, **config):
        self.model = model
        self.model_config = SimpleNamespace(hf_config=HFConfig(**config), quantization=None, dtype=torch.bfloat16)


class Scheduler:
    """The parts of SGLang's scheduler that the backend uses."""

    def __init__(self, model=None, **config):
        self.model = Model() if model is None else model
        self.tp_worker = SimpleNamespace(weight_update_runners=lambda: [("target", Runner(self.model, **config))])
        self.draft_worker = None
        self.tokens = 0  # in its cache
        self.tree_cache = SimpleNamespace(
            total_size=lambda: (self.tokens, 0),
            cache_controller=SimpleNamespace(mem_pool_host=SimpleNamespace(entries=[])),
        )

    def is_fully_idle(self, ignore_waiting=False):
        return True


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.path = os.path.join(self.dir, "kv.sock")

    def sidecar(self):
        command = [os.environ["WARMPATH_BINARY"], "node", "--no-find", "--listen", "127.0.0.1:0", "--kv-tier", "64MiB"]
        process = subprocess.Popen(
            command + ["--kv-tier-socket", self.path, "--kv-tier-listen", "", "--kv-tier-no-nixl"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def end():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def backend(self, pool, connected=True, rank=0, scheduler=None, **extra):
        config = HiCacheStorageConfig(
            tp_rank=rank, tp_size=2, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=False,
            enable_storage_metrics=False, is_page_first_layout=False, model_name="m",
            extra_config={"warmpath_socket": self.path, **UNHURRIED, **extra},
        )  # fmt: skip
        scheduler = Scheduler() if scheduler is None else scheduler
        with mock.patch.object(identity, "find_scheduler", lambda: scheduler):
            backend = WarmpathStorage(config, {})
        self.addCleanup(backend.close)
        backend.register_mem_pool_host(pool)
        if connected:
            eventually("connected", lambda: backend.pools["kv"].channel.up)
        return backend

    def stored(self, backend, pool, name, n=20):
        """Stores n random pages; returns their keys and contents."""
        keys, pages = keys_of(name, n), range(n)
        for p in pages:
            pool.page(p * PAGE).copy_(torch.randn(2, LAYERS, PAGE, HEADS, DIM))
        contents = [pool.page(p * PAGE).clone() for p in pages]
        self.assertEqual(backend.batch_set_v1(keys, tokens_of(pages)), [True] * n)
        eventually("stored", lambda: backend.batch_exists(keys) == n)  # a commit has no answer
        return keys, contents


class AgainstSidecar(Case):
    def setUp(self):
        super().setUp()
        self.process = self.sidecar()

    def round_trip(self, first, second):
        a, b = self.backend(first), self.backend(second)
        keys, contents = self.stored(a, first, "round trip")
        places = [(7 * i + 3) % (TOKENS // PAGE) for i in range(len(keys))]
        self.assertEqual(b.batch_exists(keys + keys_of("not there", 3)), len(keys))
        self.assertEqual(b.batch_get_v1(keys, tokens_of(places)), [True] * len(keys))
        for place, want in zip(places, contents):
            self.assertTrue(torch.equal(second.page(place * PAGE), want))

    def test_round_trip(self):
        self.round_trip(HostPool(), HostPool())

    def test_layouts_share_the_canonical_one(self):
        self.round_trip(HostPool("layer_first"), HostPool("page_first_direct"))

    def test_page_first(self):
        self.round_trip(HostPool("page_first"), HostPool("page_first"))

    def test_private_memory(self):
        self.round_trip(HostPool(shared=False), HostPool("page_first_direct", shared=False))

    def test_layouts_and_ranks_are_separate(self):
        pool = HostPool()
        keys, _ = self.stored(self.backend(pool), pool, "apart")
        self.assertEqual(self.backend(HostPool("page_first")).batch_exists(keys), 0)
        self.assertEqual(self.backend(HostPool(), rank=1).batch_exists(keys), 0)
        self.assertEqual(self.backend(HostPool(), warmpath_namespace="other").batch_exists(keys), 0)

    def test_missing_pages(self):
        pool = HostPool()
        backend = self.backend(pool)
        keys, contents = self.stored(backend, pool, "missing", 4)
        mixed = keys[:2] + keys_of("none", 1) + keys[2:]
        self.assertEqual(backend.batch_exists(mixed), 2)
        self.assertEqual(backend.batch_get_v1(mixed, tokens_of(range(50, 55)))[:3], [True, True, False])
        self.assertTrue(torch.equal(pool.page(51 * PAGE), contents[1]))
        self.assertEqual(backend.batch_exists([]), 0)

    def test_questions_longer_than_a_socket_takes_at_once(self):
        pool = HostPool()
        backend = self.backend(pool)
        keys, _ = self.stored(backend, pool, "long")
        self.assertEqual(backend.batch_exists(keys + keys_of("rest", 40_000)), len(keys))

    def test_stopped_before_it_has_read_all(self):
        backend = self.backend(HostPool(), warmpath_exists_timeout=0.5)
        self.process.send_signal(signal.SIGSTOP)
        eventually("stopped", lambda: set(states(self.process.pid)) == {"T"})
        began = time.monotonic()
        self.assertEqual(backend.batch_exists(keys_of("x", 40_000)), 0)
        self.assertGreater(time.monotonic() - began, 0.4)  # it waited for its deadline
        self.assertFalse(backend.pools["kv"].channel.exists.up)

    def test_parents(self):
        pool = HostPool()
        backend = self.backend(pool)
        keys = keys_of("parents", 6)
        info = HiCacheStorageExtraInfo(prefix_keys=keys[:3])
        self.assertEqual(backend.batch_set_v1(keys[:3], tokens_of(range(3))), [True] * 3)
        self.assertEqual(backend.batch_set_v1(keys[3:], tokens_of(range(3)), info), [True] * 3)
        eventually("stored", lambda: backend.batch_exists(keys) == 6)

    def test_wrong_arguments_raise_nothing(self):
        backend = self.backend(HostPool())
        self.assertEqual(backend.batch_get_v1(keys_of("x", 2), tokens_of([1])), [False, False])
        self.assertEqual(backend.batch_exists(["not hexadecimal"]), 0)
        self.assertGreaterEqual(backend.failures, 2)
        self.assertEqual(backend.batch_exists(keys_of("x", 2)), 0)

    def test_stopped(self):
        """One call of each kind waits for its deadline; later ones fail at once, until the
        sidecar runs."""
        first, pool = HostPool(), HostPool()
        keys, contents = self.stored(self.backend(first), first, "stopped")
        backend = self.backend(pool, warmpath_exists_timeout=0.5, warmpath_get_timeout=2.0, warmpath_set_timeout=1.0)
        self.process.send_signal(signal.SIGSTOP)
        eventually("stopped", lambda: set(states(self.process.pid)) == {"T"})
        began = time.monotonic()
        self.assertEqual(backend.batch_get_v1(keys, tokens_of(range(len(keys)))), [False] * len(keys))
        self.assertEqual(backend.batch_exists(keys), 0)
        self.assertEqual(backend.batch_set_v1(keys, tokens_of(range(len(keys)))), [False] * len(keys))
        deadlines = sum(backend.settings.deadlines.values())
        self.assertLess(time.monotonic() - began, deadlines + PATIENCE)
        for connection in backend.pools["kv"].channel.connections:
            self.assertFalse(connection.up)
        self.process.send_signal(signal.SIGCONT)
        eventually("connected again", lambda: backend.pools["kv"].channel.up)
        everything = [True] * len(keys)
        eventually("read again", lambda: backend.batch_get_v1(keys, tokens_of(range(len(keys)))) == everything)
        self.assertTrue(torch.equal(pool.page(0), contents[0]))

    def test_killed_and_restarted(self):
        pool = HostPool()
        backend = self.backend(pool)
        keys, _ = self.stored(backend, pool, "killed")
        self.process.kill()
        self.process.wait()
        eventually("seen", lambda: not backend.pools["kv"].channel.up)
        self.assertEqual(backend.batch_exists(keys), 0)
        self.assertEqual(backend.batch_set_v1(keys, tokens_of(range(len(keys)))), [False] * len(keys))
        self.sidecar()
        eventually("connected again", lambda: backend.pools["kv"].channel.up)
        self.assertEqual(backend.batch_exists(keys), 0)  # with new memory
        keys, contents = self.stored(backend, pool, "after")
        self.assertEqual(backend.batch_get_v1(keys[:1], tokens_of([90])), [True])
        self.assertTrue(torch.equal(pool.page(90 * PAGE), contents[0]))

    def test_pool_of_unknown_layout(self):
        class Strange:
            page_size = PAGE

            def get_page_buffer_meta(self, indices):
                raise ValueError("unsupported layout")

        backend = self.backend(Strange(), connected=False)
        self.assertEqual(backend.batch_exists(keys_of("x", 2)), 0)
        self.assertEqual(backend.batch_set_v1(keys_of("x", 2), tokens_of([0, 1])), [False, False])


class WithoutSidecar(Case):
    def test_no_sidecar(self):
        backend = self.backend(HostPool(), connected=False)
        self.assertEqual(backend.batch_exists(keys_of("x", 2)), 0)
        self.assertEqual(backend.batch_get_v1(keys_of("x", 2), tokens_of([0, 1])), [False, False])

    def test_garbage(self):
        """A server that answers with garbage is no sidecar, and the engine goes on."""
        answers = [b"HTTP/1.1 400 Bad Request\r\n\r\n", wire.HEADER.pack(1 << 31, wire.HELLO, 0, 0, 0), b""]
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.path)
        server.listen()
        served = threading.Event()

        def serve():
            n = 0
            while True:
                try:
                    c, _ = server.accept()
                except OSError:
                    return
                with c:
                    c.sendall(answers[n % len(answers)])
                n += 1
                if n > 2 * len(answers):
                    served.set()

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.close)
        self.addCleanup(lambda: server.shutdown(socket.SHUT_RDWR))
        backend = self.backend(HostPool(), connected=False)
        self.assertTrue(served.wait(PATIENCE))
        self.assertFalse(backend.pools["kv"].channel.up)
        self.assertEqual(backend.batch_exists(keys_of("x", 2)), 0)

    def test_close_ends_the_connector(self):
        channel = Channel(self.path, b"")
        channel.close()
        channel._connector.join(PATIENCE)
        self.assertFalse(channel._connector.is_alive())


class Layouts(unittest.TestCase):
    def test_canonical_order(self):
        pool = HostPool()
        parts = layout.pieces_of(pool, PAGE)
        self.assertEqual(len(parts), 2 * LAYERS)
        base = pool.kv_buffer.data_ptr()
        row = HEADS * DIM * 2
        self.assertEqual([p.address - base for p in parts], [i * TOKENS * row for i in range(2 * LAYERS)])
        self.assertTrue(all(p.stride == row and p.size == PAGE * row for p in parts))
        self.assertEqual(len(layout.Pages(parts, TOKENS, PAGE)._pool), 1)  # one copy a page

    def test_messages(self):
        flags, body = wire.set_(keys_of("m", 2), [1, 2], keys_of("p", 1)[0])
        self.assertEqual((flags, len(body)), (wire.FLAG_PARENT, 4 + 32 + 64 + 16))
        for bad in (b"", b"\1\0\0\0", struct.pack("<I", 9)):
            with self.assertRaises(wire.WireError):
                wire.parse_count(bad, 8) if len(bad) != 4 or bad[0] == 9 else wire.parse_offsets(bad, 1)
        with self.assertRaises(wire.WireError):
            wire.parse_welcome(b"short")


if __name__ == "__main__":
    unittest.main()
