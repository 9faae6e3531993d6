"""What open boards cost an idle server: each asks again as the script of the page does, by its validator."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import requests

from fate_flow.settings.client_keys import ClientKeys
from tests.bench.cluster import Server
from tests.kit.web.signed_in import signed_in

_POLL = re.compile(r'data-poll="(\d+)"')


@dataclass
class Board:
    """One browser with one page open."""

    url: str
    cookies: dict[str, str]
    seconds: float = 4.0
    tag: str = ""
    counts: dict[int, int] = field(default_factory=dict)

    def ask(self, session: requests.Session) -> None:
        headers = {"If-None-Match": self.tag, "Sec-Fetch-Mode": "same-origin"}
        answer = session.get(self.url, headers=headers, cookies=self.cookies, timeout=30)
        self.counts[answer.status_code] = self.counts.get(answer.status_code, 0) + 1
        if answer.status_code == 200:
            self.tag = answer.headers["ETag"]
            found = _POLL.search(answer.text)
            assert found is not None, answer.text
            self.seconds = float(found[1])


def opened(server: Server, key: ClientKeys, count: int) -> list[Board]:
    """The overview in `count` browsers, each of which has shown it once."""
    cookies = signed_in(server.url, key)
    boards = [Board(f"{server.url}/board/", cookies) for _ in range(count)]
    with requests.Session() as session:
        for one in boards:
            one.ask(session)
    return boards


def keep_open(boards: Sequence[Board], seconds: float) -> dict[str, Any]:
    """Let them keep themselves fresh for so long, and return how often each HTTP status was the answer meanwhile."""
    for one in boards:
        one.counts.clear()
    begin = time.monotonic()
    due = [(begin + number * one.seconds / len(boards), number) for number, one in enumerate(boards)]
    with requests.Session() as session:
        while due[0][0] < begin + seconds:
            at, number = heapq.heappop(due)
            time.sleep(max(0.0, at - time.monotonic()))
            boards[number].ask(session)
            heapq.heappush(due, (at + boards[number].seconds, number))
    time.sleep(max(0.0, begin + seconds - time.monotonic()))       # a while is measured
    answers = {status: sum(one.counts.get(status, 0) for one in boards) for status in (200, 304)}
    return {"boards": len(boards), "answers": answers, "every_seconds": boards[0].seconds}
