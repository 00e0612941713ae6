"""The protocol between an engine's backend and its sidecar, version 2. The sidecar's side
describes it (wire.go of the KV tier)."""

import struct

VERSION = 2
HEADER = struct.Struct("<IBBHQ")  # length of the body, op, flags, status, sequence
MAX_BODY = 16 << 20
HASH_BYTES = 32
ABSENT = (1 << 64) - 1

HELLO, EXISTS, GET, RELEASE, SET, COMMIT, STATS, CLEAR, RETIRE = range(1, 10)
FLAG_PARENT = 1

_hello = struct.Struct("<IIIHH")
_piece = struct.Struct("<HHIQQ")
_welcome = struct.Struct("<IIQQ")
_number = struct.Struct("<I")
_cleared = struct.Struct("<QII")


class WireError(Exception):
    """The sidecar violated the protocol, or refused a call."""


def hello(page_tokens, name, regions, pieces):
    """The first message. pieces: (region, bytes, base, stride) of each part of a page."""
    text = name.encode()
    parts = [_hello.pack(VERSION, page_tokens, len(pieces), len(text), regions), text]
    parts += [_piece.pack(region, 0, size, base, stride) for region, size, base, stride in pieces]
    return b"".join(parts)


def parse_welcome(body):
    """(page bytes, instance, arena bytes)"""
    if len(body) != _welcome.size:
        raise WireError(f"welcome of {len(body)} bytes")
    version, page_bytes, instance, arena_bytes = _welcome.unpack(body)
    if version != VERSION:
        raise WireError(f"the sidecar speaks version {version}, this package {VERSION}")
    return page_bytes, instance, arena_bytes


def hashes(keys):
    """The bytes of SGLang's keys of 64 hexadecimal digits each."""
    raw = bytes.fromhex("".join(keys))
    if len(raw) != HASH_BYTES * len(keys):
        raise WireError("a key is not of 64 hexadecimal digits")
    return raw


def exists(keys, wait_ms):
    return struct.pack("<II", wait_ms, len(keys)) + hashes(keys)


def get(keys, lease_ms, wait_ms):
    return struct.pack("<III", lease_ms, wait_ms, len(keys)) + hashes(keys)


def set_(keys, tokens, parent=None):
    """(flags, body). tokens: index of each page's first token in the pool."""
    head = _number.pack(len(keys))
    body = hashes(keys) + struct.pack(f"<{len(tokens)}Q", *tokens)
    if parent is None:
        return 0, head + body
    return FLAG_PARENT, head + hashes([parent]) + body


def clear(wait_ms):
    return _number.pack(wait_ms)


def parse_cleared(body):
    """(pages dropped here, peers notified, peers out of reach)"""
    if len(body) != _cleared.size:
        raise WireError(f"{len(body)} bytes after a clear")
    return _cleared.unpack(body)


def sequence(number):
    return struct.pack("<Q", number)


def parse_count(body, limit):
    if len(body) != _number.size or (n := _number.unpack(body)[0]) > limit:
        raise WireError(f"{len(body)} bytes for at most {limit} pages")
    return n


def parse_offsets(body, n):
    if len(body) != _number.size + 8 * n or _number.unpack_from(body)[0] != n:
        raise WireError(f"{len(body)} bytes for {n} pages")
    return struct.unpack_from(f"<{n}Q", body, _number.size)


def parse_results(body, n):
    if len(body) != _number.size + n or _number.unpack_from(body)[0] != n:
        raise WireError(f"{len(body)} bytes for {n} pages")
    return body[_number.size :]
