"""What an agent sends back of a worker on another host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fate_flow.engines.staged import sending
from fate_flow.engines.staged.fetch import Fetched
from fate_flow.engines.staged.pinned import Answer
from fate_flow.engines.staged.sending import send_outputs
from fate_flow.engines.staged.server import Refused, Server


class Taking:
    """A server that takes everything."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def ask(self, method: str, path: str, query: Any, body: bytes, fields: Any) -> Answer:
        self.sent.append(path.rsplit("/", 1)[1])
        return Answer(200, b'{"size": %d}' % len(body))


@pytest.mark.parametrize(("files", "is_too_much"), [(2, False), (3, True)])
def test_more_files_than_the_server_takes_are_refused_before_one_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, is_too_much: bool
) -> None:
    monkeypatch.setattr(sending, "MOST_FILES", 2)
    folder = tmp_path / "jobs" / "w"
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"made{number}").write_text("x")
    client: Any = Taking()
    server, fetched = Server(client, "w", tmp_path, 1), Fetched("jobs/w", frozenset(), {}, (), 1.0)
    if is_too_much:
        with pytest.raises(Refused, match="it has 3 files, and at most 2 can be sent to the server"):
            send_outputs(server, fetched)
        assert client.sent == []
    else:
        assert [one.at for one in send_outputs(server, fetched)] == ["jobs/w/made0", "jobs/w/made1"]
