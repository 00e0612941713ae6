"""The memory layout of a host pool's pages, and copies between the pool and the KV tier.

In the canonical layout a page is all of K and then all of V, layer by layer: K0 K1 … V0 V1 …,
each ordered by token, head and dimension. Pools of layer_first and page_first_direct share it;
any other pool keeps its own layout, under its own name.
"""

import ctypes
import mmap
import os
import warnings
from dataclasses import dataclass

import torch

CANONICAL = "kv-lthd"  # K then V; layer, token, head, dimension
_layouts = {"layer_first": CANONICAL, "page_first_direct": CANONICAL}


class Unsupported(Exception):
    """The layout of this pool's pages is unknown; the pool is used without the tier."""


@dataclass(frozen=True)
class Piece:
    address: int  # of the part of the page whose first token is 0
    size: int  # bytes
    stride: int  # bytes from one token to the next


def pieces_of(pool, page_tokens):
    """The parts of a page in canonical order, derived from the pool's own answers for three
    pages, so that an unexpected layout raises here instead of corrupting pages."""
    pages = [torch.arange(i * page_tokens, (i + 1) * page_tokens, dtype=torch.int64) for i in range(3)]
    try:
        metas = [pool.get_page_buffer_meta(page) for page in pages]
    except Exception as error:
        raise Unsupported(f"{type(pool).__name__} does not report its pages: {error}") from error
    addresses, sizes = zip(*[(list(a), list(s)) for a, s in metas])
    if not len(addresses[0]) or any(s != sizes[0] for s in sizes) or any(len(a) != len(sizes[0]) for a in addresses):
        raise Unsupported(f"pages of {type(pool).__name__} differ in size")
    parts = []
    for i, size in enumerate(sizes[0]):
        first, second, third = (a[i] for a in addresses)
        step = second - first
        if step <= 0 or third - second != step or step % page_tokens:
            raise Unsupported(f"pages of {type(pool).__name__} have no constant distance")
        parts.append(Piece(first, size, step // page_tokens))
    if getattr(pool, "layout", "") == "layer_first":
        if len(parts) % 2:
            raise Unsupported("layer_first with an odd number of parts")
        parts = parts[0::2] + parts[1::2]  # from K0 V0 K1 V1 …
    return parts


def layout_name(pool):
    """The name of the pool's layout in the tier."""
    layout = getattr(pool, "layout", "none")
    return _layouts.get(layout, layout)


def shared_regions(pool):
    """[(descriptor, address, length)] of the pool's memory that other processes can map. It is
    empty without "allocator": "shm"."""
    allocator = getattr(pool, "allocator", None)
    regions = []
    for fd, memory in zip(getattr(allocator, "fds", ()) or (), getattr(allocator, "mms", ()) or ()):
        view = ctypes.c_char.from_buffer(memory)
        regions.append((fd, ctypes.addressof(view), len(memory)))
        del view
    return regions


def locate(parts, regions):
    """[(region, bytes, base, stride)] for hello, or None where a part lies outside all regions."""
    located = []
    for p in parts:
        for i, (_, address, length) in enumerate(regions):
            if address <= p.address and p.address + p.size <= address + length:
                located.append((i, p.size, p.address - address, p.stride))
                break
        else:
            return None
    return located


class BounceBuffer:
    """Shared memory through which the pages of a private pool are copied."""

    def __init__(self, page_bytes, pages):
        self.page_bytes, self.pages = page_bytes, pages
        self.fd = os.memfd_create("warmpath-bounce", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, page_bytes * pages)
        self.memory = mmap.mmap(self.fd, page_bytes * pages)
        self.tensor = torch.frombuffer(self.memory, dtype=torch.uint8)

    def pieces(self):
        return [(0, self.page_bytes, 0, self.page_bytes)]


class Pages:
    """Copies pages between a pool and memory in the canonical layout.

    All pages of a call are one call into torch. The cost is the number of releases of Python's
    GIL: SGLang's scheduler takes the GIL and may keep it for 5 ms each time, longer than all
    copies of a prompt."""

    def __init__(self, parts, tokens, page_tokens):
        """tokens: capacity of the pool."""
        if tokens < page_tokens:
            raise Unsupported(f"a pool of {tokens} tokens")
        self.parts = parts
        self.page_bytes = sum(p.size for p in parts)
        self._pool = []  # [token, part, byte], and its offset in the canonical layout
        at = 0
        for first, count, step in _runs(parts):
            self._pool.append((_pages(first, count, step, tokens - page_tokens + 1), at))
            at += count * first.size

    def views(self, memory):
        """Views of memory (uint8) by each page's first byte, for scatter and gather, made once."""
        starts = memory.numel() - self.page_bytes + 1
        if starts < 1:
            raise Unsupported(f"{memory.numel()} bytes for pages of {self.page_bytes}")
        return [memory.as_strided((starts, *view.shape[1:]), (1, view.shape[2], 1), at) for view, at in self._pool]

    def scatter(self, views, offsets, tokens):
        """Copies the page at offsets[i] in memory to the pool's page that begins at tokens[i]."""
        _copy(
            [view[token] for view, _ in self._pool for token in tokens],
            [view[offset] for view in views for offset in offsets],
        )

    def gather(self, views, offsets, tokens):
        """Copies the pool's page that begins at tokens[i] to offsets[i] in memory."""
        _copy(
            [view[offset] for view in views for offset in offsets],
            [view[token] for view, _ in self._pool for token in tokens],
        )


def _copy(targets, sources):
    if targets:
        torch._foreach_copy_(targets, sources)


def _runs(parts):
    """[(first part, count, distance)]: runs of parts of equal size at equal distances."""
    runs = []
    for p in parts:
        if runs:
            first, count, step = runs[-1]
            gap = p.address - (first.address + (count - 1) * step) if count > 1 else p.address - first.address
            if (p.size, p.stride) == (first.size, first.stride) and gap > 0 and (count == 1 or gap == step):
                runs[-1] = (first, count + 1, gap)
                continue
        runs.append((p, 1, p.size))
    return runs


def _pages(first, count, step, tokens):
    """A view [token, part, byte] of the parts of pages that begin at any of the pool's tokens."""
    length = (tokens - 1) * first.stride + (count - 1) * step + first.size
    raw = (ctypes.c_uint8 * length).from_address(first.address)
    return torch.frombuffer(raw, dtype=torch.uint8).as_strided((tokens, count, first.size), (first.stride, step, 1))


def readable(memory):
    """A tensor over read-only memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch cannot enforce read-only memory; the kernel does
        return torch.frombuffer(memory, dtype=torch.uint8)
