"""Tracks updates of the engine's weights: whether the tier may be used, and for which weights.

From the beginning of an update until the engine holds no KV of the old weights, nothing is read
or stored. SGLang flushes its caches after an update, or at /flush_cache where the update disabled
that. Pages of the new weights have another identity, and so another namespace.

The hooks are in the model runner: all update endpoints of SGLang end there, in the scheduler's
process and thread.
"""

import functools
import hashlib
import importlib
import itertools
import logging
import secrets
import threading
import time
import weakref

from . import identity

logger = logging.getLogger("warmpath")

_UPDATER = "sglang.srt.model_executor.model_runner_components.weight_updater:WeightUpdater"
_MANAGER = "sglang.srt.managers.scheduler_components.weight_updater"
# Methods that change weights while they run.
_CHANGES = (
    f"{_UPDATER}.update_weights_from_disk",
    f"{_UPDATER}.load_weights_from_distributed",
    f"{_UPDATER}.update_weights_from_tensor",
    f"{_UPDATER}.update_weights_from_ipc",
    "sglang.srt.utils.weight_checker:WeightChecker._reset_tensors",
)
# Methods that begin and end a longer change: sessions of updates, and weights leaving the GPU.
_BEGINS = (f"{_UPDATER}.begin_weight_update", f"{_MANAGER}:_export_static_state")
_ENDS = (f"{_UPDATER}.end_weight_update", f"{_MANAGER}:_import_static_state")
_RESET = "sglang.srt.managers.cache_controller:HiCacheController.reset"

AGREE_SECONDS = 60.0  # for the ranks of an engine, which update at the same time

_watchers = weakref.WeakSet()
_hooked = False
_rounds = itertools.count(1)  # of agreement: unique in a process, and equal on all ranks


def hook():
    """Installs the hooks. Raises where this SGLang has no such methods."""
    global _hooked
    if _hooked:
        return
    found = [(path, kind, *_resolve(path)) for kind, paths in _HOOKS.items() for path in paths]
    for _, kind, owner, name in found:
        setattr(owner, name, _wrap(getattr(owner, name), *kind))
    _hooked = True


# Events before and after a call, by method.
_HOOKS = {("begin", "end"): _CHANGES, ("begin_session", None): _BEGINS, (None, "end"): _ENDS, (None, "flushed"): (_RESET,)}


def _resolve(path):
    module, _, names = path.partition(":")
    owner = importlib.import_module(module)
    *outer, name = names.split(".")
    for part in outer:
        owner = getattr(owner, part)
    if not callable(getattr(owner, name, None)):
        raise identity.Unknown(f"this SGLang has no {path}")
    return owner, name


def _wrap(original, before, after):
    @functools.wraps(original)
    def call(*args, **kwargs):
        # Elastic expert parallelism reloads lost experts, with the same weights.
        if "weight_name_filter" in kwargs:
            return original(*args, **kwargs)
        _notify(before)
        try:
            return original(*args, **kwargs)
        finally:
            _notify(after)

    return call


def _notify(event):
    for watcher in list(_watchers) if event else ():
        try:
            getattr(watcher, event)()
        except Exception:
            logger.exception("the KV tier cannot track an update of weights: it is off")
            watcher.fail()


class Weights:
    """Tracks the weights of one rank. changed(allowed, identity) is called with allowed=None when
    the tier must not be used, and with the identity when it may be."""

    def __init__(self, scheduler, changed, ranks=None):
        self._scheduler, self._changed = scheduler, changed
        self._ranks = Ranks() if ranks is None else ranks
        self._lock = threading.RLock()  # guards the fields below
        self._changing = 0  # updates and sessions in progress, and weights that have left the GPU
        self._session = False  # one of them is a session, in which requests may have run
        self._stale = False  # the engine may hold KV of other weights
        self._failed = False
        self._local = self._sample = None
        self._round = 0
        self.identity = None
        self.settled = threading.Event()  # the ranks have agreed, or failed to
        hook()
        _watchers.add(self)
        self._settle()

    def begin(self):
        with self._lock:
            self._changing += 1
            self._changed(None)

    def begin_session(self):
        with self._lock:
            self._session = True
            self.begin()

    def end(self):
        with self._lock:
            self._changing = max(0, self._changing - 1)
            if self._changing:
                return
            before = self._local
            self._read()
            if self._empty():
                self._stale = False
            elif self._session or self._local != before:
                self._stale = True
            self._session = False
            self._settle(read=False)

    def flushed(self):
        """The engine has dropped its KV. Weights that changed without a hook are found here."""
        with self._lock:
            if self._changing:  # end() checks again
                return
            self._stale = False
            self._changed(None)
            self._settle(read=self._sample is None or self._sampled() != self._sample)

    def fail(self):
        with self._lock:
            self._failed = True
            self._changed(None)

    def close(self):
        _watchers.discard(self)
        self.fail()

    def _runners(self):
        if self._scheduler is None:
            raise identity.Unknown("SGLang's scheduler was not found")
        return identity.runners_of(self._scheduler)

    def _sampled(self):
        return identity.sample(self._runners())

    def _read(self):
        """Reads the weights' identity. Unreadable weights get a random one."""
        began = time.monotonic()
        try:
            self._local = identity.fingerprint(self._runners())
            self._sample = self._sampled()
            logger.info("read the weights' identity in %.2f s", time.monotonic() - began)
        except Exception as error:
            self._local, self._sample = f"random {secrets.token_hex(16)}", None
            logger.warning("the weights cannot be identified (%s): the KV tier serves this process alone until the next update", error)

    def _empty(self):
        """Whether the engine holds no KV, in its own memory or the host's."""
        try:
            scheduler = self._scheduler
            total = scheduler.tree_cache.total_size()
            host = scheduler.tree_cache.cache_controller.mem_pool_host
            used = sum(total) if isinstance(total, tuple) else total
            cached = sum(e.host_pool.logical_size - e.host_pool.available_size() for e in host.entries)
            return used == 0 and cached == 0 and bool(scheduler.is_fully_idle(ignore_waiting=True))
        except Exception:
            return False

    def _settle(self, read=True):
        """Starts an agreement of all ranks on one identity: KV of each rank depends on the
        weights of all."""
        if read:
            self._read()
        self._round = next(_rounds)
        number, local = self._round, self._local
        if self._ranks.size == 1:
            self._agreed(number, local)
            return
        self.settled.clear()
        threading.Thread(target=self._agree, args=(number, local), name="warmpath-weights", daemon=True).start()

    def _agree(self, number, local):
        try:
            whole = self._ranks.agree(number, local, lambda: self._round == number)
        except Exception as error:
            logger.warning("the ranks do not agree on their weights (%s): the KV tier is off until the next flush", error)
            self.settled.set()
            return
        self._agreed(number, whole)

    def _agreed(self, number, whole):
        with self._lock:
            if number != self._round or self._failed:
                return  # a later round decides
            if whole != self.identity:
                logger.info("the KV tier's pages are now those of the weights %.12s; before: %.12s", whole, self.identity)
            self.identity = whole
            self._changed(None if self._stale or self._changing else whole, whole)
            self.settled.set()


class Ranks:
    """The ranks of an engine, which exchange identities through torch.distributed's store.
    SGLang's threads never wait for it, so ranks that disagree cannot hang the engine."""

    def __init__(self):
        import torch.distributed as dist

        self.rank, self.size, self._store = 0, 1, None
        if dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
        if self.size > 1:
            self._store = dist.PrefixStore("warmpath/weights", dist.distributed_c10d._get_default_store())

    def agree(self, number, local, wanted):
        """The identity of all ranks' weights. wanted() is false once a newer round has begun."""
        self._store.set(f"{number}/{self.rank}", local)
        keys = [f"{number}/{rank}" for rank in range(self.size)]
        deadline = time.monotonic() + AGREE_SECONDS
        pause = 0.001
        while not self._store.check(keys):
            if not wanted() or time.monotonic() > deadline:
                raise TimeoutError(f"round {number}")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return hashlib.sha256(b"\n".join(self._store.get(key) for key in keys)).hexdigest()
