"""A witness of C2SP tlog-witness by itself: it shares no code with the record, so that both would have to be wrong in
the same way."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

TIME = 1_700_000_000


@dataclass
class SmallWitness:
    """`knows(vkey)` tells it a log; before, it answers that it is not ready. `kept`: the size and root of what it has
    cosigned last, by origin. `seen`: the origins, sizes and roots that it was shown."""

    name: str = "witness.example/small"
    kept: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    seen: list[tuple[str, int, bytes]] = field(default_factory=list)
    _logs: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)      # by origin: key id, public key

    def __post_init__(self) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(sha256(self.name.encode()).digest())
        raw = b"\x04" + self._private.public_key().public_bytes_raw()
        self._id = sha256(self.name.encode() + b"\n" + raw).digest()[:4]
        self.vkey = f"{self.name}+{self._id.hex()}+{b64encode(raw).decode()}"

    def knows(self, vkey: str) -> None:
        origin, key_id, encoded = vkey.split("+", 2)
        self._logs[origin] = bytes.fromhex(key_id), b64decode(encoded)[1:]

    def add_checkpoint(self, body: str) -> tuple[int, str]:
        head, _, note = body.partition("\n\n")
        text, _, signatures = note.rpartition("\n\n")
        text += "\n"
        old = int(head.split("\n")[0].removeprefix("old "))
        proof = [b64decode(line) for line in head.split("\n")[1:]]
        origin, count, root = (*text.split("\n")[:2], b64decode(text.split("\n")[2]))
        if not self._logs:
            return 503, "not ready\n"
        if origin not in self._logs:
            return 404, "unknown log\n"
        if not self._is_signed(origin, text, signatures):
            return 403, "no known key has signed it\n"
        size = int(count)
        self.seen.append((origin, size, root))
        kept, kept_root = self.kept.get(origin, (0, sha256().digest()))
        if old > size:
            return 400, "old is larger\n"
        if old != kept or (size == kept and root != kept_root):
            return 409, f"{kept}\n"
        if not _is_consistent(kept, kept_root, size, root, proof):
            return 422, "inconsistent\n"
        self.kept[origin] = size, root
        signed = self._private.sign(f"cosignature/v1\ntime {TIME}\n{text}".encode())
        line = b64encode(self._id + struct.pack(">Q", TIME) + signed).decode()
        return 200, f"\u2014 {self.name} {line}\n"

    def _is_signed(self, origin: str, text: str, signatures: str) -> bool:
        key_id, key = self._logs[origin]
        for line in signatures.splitlines():
            _, name, encoded = line.split(" ")
            raw = b64decode(encoded)
            if (name, raw[:4]) == (origin, key_id):
                try:
                    Ed25519PublicKey.from_public_bytes(key).verify(raw[4:], text.encode())
                except InvalidSignature:
                    return False
                return True
        return False

    @contextmanager
    def served(self) -> Iterator[str]:
        """Answer at an address of this machine until the end of the block; yield the URL."""
        witness = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, text = witness.add_checkpoint(body) if self.path.endswith("/add-checkpoint") else (404, "")
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}/below"
            finally:
                server.shutdown()
                thread.join()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def _is_consistent(first: int, first_root: bytes, second: int, second_root: bytes, proof: list[bytes]) -> bool:
    """The algorithm of RFC 9162, section 2.1.4.2."""
    if first in (0, second):
        return not proof and (first == 0 or first_root == second_root)
    path = [first_root, *proof] if first & (first - 1) == 0 else proof
    if not path:
        return False
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for one in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = _node(one, fr), _node(one, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = _node(sr, one)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and (fr, sr) == (first_root, second_root)
