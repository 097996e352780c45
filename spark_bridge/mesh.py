"""A connection between any two tasks of a barrier stage, by which all exchange messages at the same time.

Both ends of a connection prove to each other that they know the secret of the run, before anything else is
read. What is sent then is not encrypted, as Spark's own shuffles are not unless they are told to be.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

_HELLO = struct.Struct("<I32s32s")  # rank, nonce, proof
_LENGTH = struct.Struct("<Q")
_NONCE = _PROOF = 32
CONNECT_SECONDS = 20.0
"""So long a task waits until all others are connected."""
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
"""A machine that is gone without a word is noticed after two minutes."""


class MeshError(Exception):
    """The tasks can't be connected, or not any more."""


class Mesh:
    """Connections to all other ranks. All ranks call `swap` the same number of times, in step."""

    def __init__(self, rank: int, peers: dict[int, socket.socket], count: int) -> None:
        self.rank = rank
        self.count = count
        self.sent_bytes = 0
        self._peers = peers

    @classmethod
    def connect(cls, rank: int, host: str, secret: bytes, gather: Callable[[str], Sequence[str]]) -> Mesh:
        """Connect all ranks, each of which listens on its `host`; each raises `MeshError` if one can't.

        `gather` gives every rank what all of them hand to it.
        """
        listener, problem = _listen(host)
        addresses = gather(_address(listener, host) if listener is not None else "")
        peers: dict[int, socket.socket] = {}
        if listener is not None and all(addresses):
            try:
                peers = _connected(rank, listener, addresses, _of_attempt(secret, addresses))
            except OSError as error:
                problem = f"{host} can't reach the other tasks: {error}"
        elif listener is not None:
            problem = ""  # it is told by who can't listen
        if listener is not None:
            listener.close()
        problems = [told for told in gather(problem) if told]
        if problems:
            for peer in peers.values():
                peer.close()
            raise MeshError(problems[0])
        return cls(rank, peers, len(addresses))

    def swap(self, messages: Sequence[bytes]) -> list[bytes | bytearray]:
        """Send each rank its message, and return what each of them sent to this one (its own as it is)."""
        received: list[bytes | bytearray] = [b""] * self.count
        received[self.rank] = messages[self.rank]
        failures: list[OSError] = []

        def send() -> None:
            try:
                for step in range(1, self.count):
                    self._send((self.rank + step) % self.count, messages)
            except OSError as error:
                failures.append(error)

        sender = threading.Thread(target=send, name="gpuengine-mesh", daemon=True)
        sender.start()
        try:
            # By steps: whoever is behind is read by one who is not further, so nobody waits for ever.
            for step in range(1, self.count):
                other = (self.rank - step) % self.count
                peer = self._peers[other]
                (length,) = _LENGTH.unpack(_read(peer, _LENGTH.size))
                received[other] = _read(peer, length)
        except OSError as error:
            raise MeshError(f"another task of the stage has ended: {error}") from error
        sender.join()
        if failures:
            raise MeshError(f"another task of the stage has ended: {failures[0]}") from failures[0]
        return received

    def _send(self, other: int, messages: Sequence[bytes]) -> None:
        peer, message = self._peers[other], messages[other]
        peer.sendall(_LENGTH.pack(len(message)))
        peer.sendall(message)
        self.sent_bytes += len(message)

    def close(self) -> None:
        """End all connections; whoever still reads from this rank fails."""
        for peer in self._peers.values():
            with suppress(OSError):
                peer.close()


def _listen(host: str) -> tuple[socket.socket | None, str]:
    """A listener on a free port of this address, or why there can't be one."""
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, 0), family=family, backlog=1024), ""
    except OSError as error:
        return None, f"a task can't listen on {host}: {error}"


def _address(listener: socket.socket, host: str) -> str:
    return f"{host} {listener.getsockname()[1]}"


def _of_attempt(secret: bytes, addresses: Sequence[str]) -> bytes:
    """The secret of tasks with these addresses: what is left of an attempt that failed does not know it."""
    return hmac.digest(secret, "|".join(addresses).encode(), hashlib.sha256)


def _connected(
    rank: int, listener: socket.socket, addresses: Sequence[str], secret: bytes
) -> dict[int, socket.socket]:
    """Connect to the lower ranks, and let the higher ones connect."""
    deadline = time.monotonic() + CONNECT_SECONDS
    peers: dict[int, socket.socket] = {}
    try:
        for other in range(rank):
            host, _, port = addresses[other].rpartition(" ")
            peer = socket.create_connection((host, int(port)), timeout=_left(deadline))
            peers[other] = peer
            _introduce(peer, rank, secret)
        while len(peers) < len(addresses) - 1:
            listener.settimeout(_left(deadline))
            peer, _ = listener.accept()
            peer.settimeout(min(5.0, _left(deadline)))
            try:
                welcomed = _welcomed(peer, secret)
            except OSError:
                welcomed = None
            if welcomed is None:  # some scanner of ports, which does not know the secret
                peer.close()
            else:
                peers[welcomed] = peer
    except OSError:
        for peer in peers.values():
            peer.close()
        raise
    for peer in peers.values():
        peer.settimeout(None)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return peers


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"not all tasks were connected after {CONNECT_SECONDS:.0f} s")
    return left


def _introduce(peer: socket.socket, rank: int, secret: bytes) -> None:
    """Prove to a listener to be one of the tasks, and have it prove the same."""
    theirs, own = bytes(_read(peer, _NONCE)), secrets.token_bytes(_NONCE)
    peer.sendall(_HELLO.pack(rank, own, _proof(secret, b"who connects", theirs, own, rank)))
    if not hmac.compare_digest(_read(peer, _PROOF), _proof(secret, b"who listens", own, theirs, rank)):
        raise ConnectionRefusedError("who listens there is no task of this run")


def _welcomed(peer: socket.socket, secret: bytes) -> int | None:
    """The rank of a task that proves to be one of this run; None if it is none."""
    own = secrets.token_bytes(_NONCE)
    peer.sendall(own)
    rank, theirs, proof = _HELLO.unpack(_read(peer, _HELLO.size))
    if not hmac.compare_digest(proof, _proof(secret, b"who connects", own, theirs, rank)):
        return None
    peer.sendall(_proof(secret, b"who listens", theirs, own, rank))
    return int(rank)


def _proof(secret: bytes, role: bytes, asked: bytes, own: bytes, rank: int) -> bytes:
    return hmac.digest(secret, b"|".join([role, asked, own, str(rank).encode()]), hashlib.sha256)


def _read(peer: socket.socket, length: int) -> bytearray:
    buffer = bytearray(length)
    view, done = memoryview(buffer), 0
    while done < length:
        count = peer.recv_into(view[done:])
        if not count:
            raise ConnectionResetError("its connection was closed")
        done += count
    return buffer
