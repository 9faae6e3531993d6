"""How the body of a request is read: at once, as far as it may be."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge
from werkzeug.test import EnvironBuilder

from fate_flow.api.bodies.reading import BodyRequest

MEBIBYTE = 1024 * 1024


class Reads(BytesIO):
    """A body that says how much it was asked for, each time."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.asked: list[int | None] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked.append(size)
        return super().read(size)

    def readinto(self, buffer: Any, /) -> int:
        self.asked.append(len(buffer))
        return super().readinto(buffer)


class Broken(BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise ConnectionResetError(size)


def request(body: BytesIO, length: int | None, **headers: Any) -> BodyRequest:
    environ = EnvironBuilder(method="POST", **headers).get_environ()
    environ.update({"wsgi.input": body, "wsgi.input_terminated": True})
    if length is not None:
        environ["CONTENT_LENGTH"] = str(length)
    found = BodyRequest(environ)
    found.max_content_length = 6 * MEBIBYTE
    return found


def test_a_body_is_asked_for_in_one_call() -> None:
    body = Reads(bytes(MEBIBYTE))
    assert request(body, MEBIBYTE).get_data() == bytes(MEBIBYTE)
    assert body.asked == [MEBIBYTE]


@pytest.mark.parametrize("body", [BytesIO(b"too short"), Broken()], ids=["it ends", "the connection breaks"])
def test_a_body_that_ends_too_early_is_refused(body: BytesIO) -> None:
    with pytest.raises(ClientDisconnected):
        request(body, 100).get_data()


def test_a_body_that_is_too_large_is_not_read() -> None:
    body = Reads(b"")
    with pytest.raises(RequestEntityTooLarge):
        request(body, 7 * MEBIBYTE).get_data()
    assert body.asked == []


@pytest.mark.parametrize(
    ("length", "headers"), [(None, {}), (5 * MEBIBYTE, {"content_type": "multipart/form-data; boundary=x"})],
    ids=["of unknown length", "a form, whose files go to disk"],
)  # fmt: skip
def test_other_bodies_come_piece_by_piece(length: int | None, headers: dict[str, Any]) -> None:
    body = Reads(bytes(5 * MEBIBYTE))
    assert request(body, length, **headers).stream.read(1000) == bytes(1000)
    assert max(size or 0 for size in body.asked) <= 64 * 1024
