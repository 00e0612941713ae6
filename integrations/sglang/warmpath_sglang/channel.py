"""Connections to the sidecar that bound each call by a deadline and reconnect by themselves.

A call on a connection that is down fails at once. A late or wrong answer takes the connection
down. A thread reconnects, so that an engine never waits for a dead, stopped or starting sidecar.
"""

import ctypes
import logging
import mmap
import os
import select
import socket
import struct
import threading
import time

from . import wire

logger = logging.getLogger("warmpath")


class Down(Exception):
    """No sidecar answered in time."""


class Arena:
    """The sidecar's memory, mapped read-only."""

    def __init__(self, fd, length, instance):
        self.instance = instance
        self.length = length
        # The mapping outlives the sidecar and its descriptor, as long as a reader refers to it.
        self.memory = mmap.mmap(fd, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)


_timeval = struct.Struct("@ll")
_libc = ctypes.PyDLL(None)  # keeps the GIL during the call: see layout.Pages
_libc.send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_libc.send.restype = ctypes.c_ssize_t


def _send_at_once(fd, message):
    """Sends the bytes that the kernel accepts without waiting, and returns their number. An error
    surfaces when the rest is sent or the answer received."""
    return max(0, _libc.send(fd, message, len(message), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL))


class Connection:
    """One connection, for one call at a time; a call's deadline includes the wait for its turn."""

    def __init__(self, owner, role):
        self.owner, self.role = owner, role
        self._turn = threading.Lock()
        self._socket = None  # written by the connector, and by the holder of the turn
        self.arena = None
        self._sequence = 0

    @property
    def up(self):
        return self._socket is not None

    def call(self, op, body, seconds, flags=0, then=None):
        """Returns the answer's body, or the result of then(arena, body, sequence), which runs
        before the next call's turn."""
        if self._socket is None:
            raise Down("no connection")
        deadline = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            raise Down("another call takes too long")
        try:
            if self._socket is None:
                raise Down("no connection")
            try:
                self._sequence += 1
                number = self._sequence
                self._send(op, flags, number, body, deadline)
                answer = self._receive(op, number, deadline)
                return answer if then is None else then(self.arena, answer, number)
            except (OSError, EOFError, wire.WireError) as error:
                self._drop()
                raise Down(str(error) or type(error).__name__) from error
            except BaseException:
                self._drop()  # the next byte on the connection may not begin an answer any more
                raise
        finally:
            self._turn.release()

    def tell(self, op, body, deadline):
        """Sends a message without an answer. Only from `then`."""
        self._sequence += 1
        self._send(op, 0, self._sequence, body, deadline)

    def _send(self, op, flags, number, body, deadline):
        if len(body) > wire.MAX_BODY:
            raise wire.WireError(f"a message of {len(body)} bytes")
        message = wire.HEADER.pack(len(body), op, flags, 0, number) + body
        sent = _send_at_once(self._socket.fileno(), message)
        while sent < len(message):  # the sidecar is slow, or the message long
            self._limit(socket.SO_SNDTIMEO, deadline)
            sent += self._socket.send(message[sent:])

    def _receive(self, op, number, deadline):
        """Receives an answer, in one system call where the sidecar answers quickly."""
        got = bytearray()
        need = wire.HEADER.size
        while len(got) < need:
            self._limit(socket.SO_RCVTIMEO, deadline)
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                raise EOFError("the sidecar closed the connection")
            got += chunk
            if len(got) >= wire.HEADER.size:
                length, got_op, _, status, got_number = wire.HEADER.unpack_from(got)
                if length > wire.MAX_BODY or got_op != op or got_number != number:
                    raise wire.WireError(f"answer {got_number} to op {got_op} where {number} to {op} was due")
                need = wire.HEADER.size + length
        if len(got) > need:
            raise wire.WireError(f"{len(got) - need} bytes after an answer")
        body = bytes(got[wire.HEADER.size :])
        if status != 0:
            raise wire.WireError(f"the sidecar refused: {body.decode(errors='replace')}")
        return body

    def _limit(self, which, deadline):
        """Sets the deadline in the kernel: Python's own timeout is a second call, and each call
        may wait 5 ms for the GIL (see layout.Pages)."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self._socket.setsockopt(socket.SOL_SOCKET, which, _timeval.pack(*divmod(max(1, int(left * 1e6)), 1_000_000)))

    def _drop(self):
        closing, self._socket = self._socket, None
        if closing is not None:
            closing.close()
        self.owner.wake()

    def connect(self, path, hello, fds, seconds):
        """Connects. Only from the connector, while the connection is down."""
        deadline = time.monotonic() + seconds
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            s.settimeout(seconds)
            s.connect(path)
            frame = wire.HEADER.pack(len(hello), wire.HELLO, 0, 0, 0) + hello
            sent = socket.send_fds(s, [frame], fds) if fds else s.send(frame)
            s.sendall(frame[sent:])
            arena, page_bytes = self._welcome(s, deadline)
        except BaseException:
            s.close()
            raise
        s.settimeout(None)  # from here on the kernel's timeouts apply: see _limit
        self.arena = arena
        self._socket = s
        return page_bytes

    def _welcome(self, s, deadline):
        data, fds = b"", []
        try:
            need = wire.HEADER.size
            while len(data) < need:
                s.settimeout(max(deadline - time.monotonic(), 0.001))
                chunk, more, _, _ = socket.recv_fds(s, need - len(data), 1)
                fds += more
                if not chunk:
                    raise EOFError("the sidecar hung up")
                data += chunk
                if len(data) == wire.HEADER.size and need == wire.HEADER.size:
                    length, op, _, status, _ = wire.HEADER.unpack(data)
                    if op != wire.HELLO or length > 1 << 16:
                        raise wire.WireError("no answer to hello")
                    need += length
            body = data[wire.HEADER.size :]
            if status != 0:
                raise wire.WireError(f"the sidecar refused: {body.decode(errors='replace')}")
            page_bytes, instance, length = wire.parse_welcome(body)
            if len(fds) != 1:
                raise wire.WireError("hello was answered without the tier's memory")
            return self.owner.arena_of(fds[0], length, instance), page_bytes
        finally:
            for fd in fds:
                os.close(fd)

    def gone(self):
        """Drops a connection that the sidecar has closed. A call in progress notices by itself."""
        if self._turn.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._turn.release()

    def fileno(self):
        """The socket's descriptor, or -1."""
        s = self._socket
        return -1 if s is None else s.fileno()

    def close(self, last=None):
        """Ends the connection. `last` is the op of a final message without an answer."""
        with self._turn:
            if last is not None and self._socket is not None:
                try:
                    self.tell(last, b"", time.monotonic() + 0.1)
                except (OSError, wire.WireError):
                    pass  # a hanging sidecar evicts the pages later
            closing, self._socket = self._socket, None
            if closing is not None:
                closing.close()


class Channel:
    """The connections of one pool, one for each of SGLang's threads, so that a large store does
    not delay a look-up."""

    ROLES = ("exists", "get", "set")
    FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0

    def __init__(self, path, hello, fds=(), connect_seconds=1.0):
        self._path, self._hello, self._fds, self._seconds = path, hello, list(fds), connect_seconds
        self._arena = None
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stop, self._last = False, None
        self.tried = threading.Event()  # a first connect has succeeded or failed
        self._logged = None
        self.exists, self.get, self.set = self.connections = [Connection(self, role) for role in self.ROLES]
        self.connects = 0
        # A daemon thread does not keep an engine from exiting.
        self._connector = threading.Thread(target=self._run, name="warmpath-kv", daemon=True)
        self._connector.start()

    @property
    def up(self):
        return all(c.up for c in self.connections)

    def wake(self):
        os.eventfd_write(self._news, 1)

    def arena_of(self, fd, length, instance):
        """One mapping for all connections to one sidecar."""
        if self._arena is None or self._arena.instance != instance or self._arena.length != length:
            self._arena = Arena(fd, length, instance)
        return self._arena

    def _run(self):
        wait = self.FIRST_WAIT
        while not self._stop:
            down = [c for c in self.connections if not c.up]
            try:
                for c in down:
                    c.connect(self._path, self._hello, self._fds, self._seconds)
                    self.connects += 1
                wait = self.FIRST_WAIT
                self.tried.set()
                if down:
                    self._say(logging.INFO, "connected to the KV tier at %s", self._path)
                self._watch()
            except Exception as error:  # noqa: BLE001: the connector survives every sidecar
                if isinstance(error, PermissionError):
                    error = (
                        f"{error}: the sidecar runs as another user; run both as one user, "
                        f"or the sidecar with --kv-tier-socket-group {os.getegid()}"
                    )
                self.tried.set()
                self._say(logging.WARNING, "no KV tier at %s (%s): SGLang computes until it answers", self._path, error)
                # Not an event: failing calls must not cause reconnects in a loop.
                time.sleep(wait)
                wait = min(wait * 2, self.LONGEST_WAIT)
        for c in self.connections:  # one may have been connected after close
            c.close(self._last)

    def __del__(self):  # not in close: a call that ends late still wakes the connector
        os.close(self._news)

    def _watch(self):
        """Returns when a connection is down. It watches idle connections too, so that the first
        call after a restart of the sidecar does not fail."""
        poll = select.poll()
        poll.register(self._news, select.POLLIN)
        watched = {c.fileno(): c for c in self.connections if c.fileno() >= 0}
        for fd in watched:
            poll.register(fd, select.POLLRDHUP)  # not POLLIN: answers belong to the callers
        for fd, _ in poll.poll():
            if fd == self._news:
                os.eventfd_read(self._news)
            else:
                watched[fd].gone()

    def _say(self, level, message, *args):
        if self._logged != message:  # once for each change, not each attempt
            self._logged = message
            logger.log(level, message, *args)

    def close(self, last=None):
        self._last = last  # the connector closes connections too
        self._stop = True
        self.wake()
        for c in self.connections:
            c.close(last)
