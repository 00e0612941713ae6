"""Connections to the sidecar that never make their caller wait for long, and come back by themselves.

A call on a connection that is down fails at once. One that is answered too late, or wrongly, takes the connection down. A thread
connects those that are down again, so that an engine never waits for a sidecar that is dead, stopped or starting.
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
    """There is no sidecar, or it did not answer in time."""


class Arena:
    """The sidecar's memory, which this process can only read."""

    def __init__(self, fd, length, instance):
        self.instance = instance
        self.length = length
        # The mapping lives as long as somebody reads it, whatever became of the sidecar and its descriptor.
        self.memory = mmap.mmap(fd, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)


_timeval = struct.Struct("@ll")
_libc = ctypes.PyDLL(None)  # which keeps Python's lock: see form.Pages
_libc.send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_libc.send.restype = ctypes.c_ssize_t


def _send_at_once(fd, message):
    """Sends what the kernel takes without waiting, and returns how many bytes. What went wrong is seen by who sends the rest, or receives."""
    return max(0, _libc.send(fd, message, len(message), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL))


class Connection:
    """One connection. One call at a time; the caller's deadline holds for the wait for one's turn too."""

    def __init__(self, owner, role):
        self.owner, self.role = owner, role
        self._turn = threading.Lock()
        self._socket = None  # written by the keeper, and by whoever has the turn
        self.arena = None
        self._sequence = 0

    @property
    def up(self):
        return self._socket is not None

    def call(self, op, body, seconds, flags=0, then=None):
        """The answer's body. then(arena, body, sequence), where given, is called before anybody else's turn, and its result returned."""
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
                self._drop()  # whatever it was, the connection's next byte is not an answer's first any more
                raise
        finally:
            self._turn.release()

    def tell(self, op, body, deadline):
        """Sends what has no answer. Only from `then`."""
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
        """One call into the kernel where the sidecar is quick: the answer comes in one piece."""
        got = bytearray()
        need = wire.HEADER.size
        while len(got) < need:
            self._limit(socket.SO_RCVTIMEO, deadline)
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                raise EOFError("the sidecar has gone")
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
        """Lets the kernel keep the deadline: Python's own timeout is a second call, and each may cost 5 ms (see form.Pages)."""
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
        """Only from the keeper, while the connection is down."""
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
        s.settimeout(None)  # from here on the kernel's timeouts hold: see _limit
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
        """Drops a connection that the sidecar has ended. A call that is under way sees it by itself."""
        if self._turn.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._turn.release()

    def fileno(self):
        """Of the socket, or -1."""
        s = self._socket
        return -1 if s is None else s.fileno()

    def close(self, last=None):
        """Ends the connection, after one message without an answer where `last` is its op."""
        with self._turn:
            if last is not None and self._socket is not None:
                try:
                    self.tell(last, b"", time.monotonic() + 0.1)
                except (OSError, wire.WireError):
                    pass  # a sidecar that hangs keeps its pages until others need the room
            closing, self._socket = self._socket, None
            if closing is not None:
                closing.close()


class Channel:
    """The connections of one pool, one for each of SGLang's threads, so that a large store does not hold up a question."""

    ROLES = ("exists", "get", "set")
    FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0

    def __init__(self, path, hello, fds=(), connect_seconds=1.0):
        self._path, self._hello, self._fds, self._seconds = path, hello, list(fds), connect_seconds
        self._arena = None
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stop, self._last = False, None
        self.tried = threading.Event()  # connecting has worked, or failed once
        self._complained = None
        self.exists, self.get, self.set = self.connections = [Connection(self, role) for role in self.ROLES]
        self.connects = 0
        # A daemon: it must not keep an engine from ending.
        self._keeper = threading.Thread(target=self._keep, name="warmpath-kv", daemon=True)
        self._keeper.start()

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

    def _keep(self):
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
            except Exception as error:  # noqa: BLE001: the keeper must outlive whatever a sidecar does
                if isinstance(error, PermissionError):
                    error = f"{error}: the sidecar runs as another user; run both as one, or it with --kv-tier-socket-group {os.getegid()}"
                self.tried.set()
                self._say(logging.WARNING, "no KV tier at %s (%s): pages are computed until there is", self._path, error)
                # Not the event: calls that fail meanwhile must not make us hammer a sidecar that starts.
                time.sleep(wait)
                wait = min(wait * 2, self.LONGEST_WAIT)
        for c in self.connections:  # one may have been made after close
            c.close(self._last)

    def __del__(self):  # not close: a call that ends late still wakes the keeper
        os.close(self._news)

    def _watch(self):
        """Returns when a connection is down. Idle ones are watched, so that the first call after a sidecar's restart does not fail."""
        poll = select.poll()
        poll.register(self._news, select.POLLIN)
        watched = {c.fileno(): c for c in self.connections if c.fileno() >= 0}
        for fd in watched:
            poll.register(fd, select.POLLRDHUP)  # not POLLIN: answers are not ours
        for fd, _ in poll.poll():
            if fd == self._news:
                os.eventfd_read(self._news)
            else:
                watched[fd].gone()

    def _say(self, level, message, *args):
        if self._complained != message:  # once for each change, not for each try
            self._complained = message
            logger.log(level, message, *args)

    def close(self, last=None):
        self._last = last  # the keeper closes connections too
        self._stop = True
        self.wake()
        for c in self.connections:
            c.close(last)
