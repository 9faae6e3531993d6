"""Where the lines of logs come from: files with any bytes, and answers of a partner that may be made to do harm."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.errors import OperationFailed, PeerUnreachable
from fate_flow.core.model.job import Answer, TaskKey
from fate_flow.core.wire.v1.queries import TaskLogQuery
from fate_flow.web.logs.partner_places import PartnerPlaces
from fate_flow.web.logs.sources import (
    DOWNLOAD_SECONDS,
    SEARCH_SECONDS,
    ComponentLog,
    LogSource,
    PartnerLog,
    search,
)
from tests.kit.api.client_world import GUEST, HOST, make_world
from tests.kit.web.browser import Browser
from tests.kit.web.filled_task import add_filled_task

MIB = 1024 * 1024
QUERY = TaskLogQuery("20260101120000000001", "toy_0", HOST)


class Partner:
    """The server of a partner with a log, or with one answer to everything. Time passes with each question."""

    def __init__(self, content: bytes = b"", lie: Mapping[str, Any] | None = None, seconds: float = 0.0) -> None:
        self.content, self.lie, self.seconds, self.now, self.questions = content, lie, seconds, 0.0, 0

    def log(self) -> PartnerLog:
        return PartnerLog(lambda _, __, body: self.ask(body), QUERY, lambda: self.now)

    def ask(self, body: Mapping[str, Any]) -> Answer:
        self.questions += 1
        self.now += self.seconds
        size, offset = body.get("bytes", 256 * 1024), body["offset"]
        if self.lie is not None:
            moved = {"next_offset": offset + self.lie["advance"]} if "advance" in self.lie else {}
            return Answer(data={"status": "running", **self.lie, **moved})
        piece, decoder = self.content[offset : offset + size], getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(piece)
        behind = offset + len(piece) - len(decoder.getstate()[0])
        return Answer(data={"text": text, "next_offset": behind, "bytes": len(self.content), "status": "running"})


def component_log(folder: Path, content: bytes) -> ComponentLog:
    log = ComponentLog(folder, TaskKey("20260101120000000001", "toy_0", 0, GUEST), "INFO", is_over=True)
    log.path.parent.mkdir(parents=True, exist_ok=True)
    log.path.write_bytes(content)
    return log


def found_in(source: LogSource, text: str) -> Iterator[tuple[int, str]]:
    """What all the pages of a search show."""
    at, pages = 0, 0
    while pages == 0 or at:
        found = search(source, text, at)
        assert pages < 50
        yield from ((one.offset, one.line) for one in found.hits)
        at, pages = found.next, pages + 1


# ---------------------------------------------------------------------- a partner that does harm


@pytest.mark.parametrize("lie", [
    {"text": "x", "advance": 1, "bytes": 1 << 59},                      # millions of questions
    {"text": "x", "advance": 1 << 40, "bytes": 1 << 59}, {"text": "", "advance": 1 << 20, "bytes": 1 << 59},
    {"text": "x" * 10, "advance": MIB, "bytes": MIB}, {"text": "x" * 2 * MIB, "advance": MIB, "bytes": MIB},
    {"text": "x" * 2 * MIB, "advance": 2 * MIB, "bytes": 1 << 59}, {"text": "x", "advance": 0, "bytes": 1 << 59},
    {"text": "", "advance": 0, "bytes": 1 << 59},
])  # fmt: skip
def test_a_piece_that_no_log_can_have_ends_the_search_and_the_download(lie: Mapping[str, Any]) -> None:
    partner = Partner(lie=lie)
    with pytest.raises(PeerUnreachable, match=r"^host 10000 answers what no log has: \d+ characters as bytes 0 to"):
        search(partner.log(), "x", 0)
    assert partner.questions == 1
    with pytest.raises(PeerUnreachable, match="answers what no log has"):
        list(partner.log().download())
    assert partner.questions <= 3


def test_a_partner_whose_log_has_no_end_is_asked_a_few_times_for_one_search() -> None:
    partner = Partner(lie={"text": "x" * (MIB - 1) + "\n", "advance": MIB, "bytes": 1 << 59})
    found = search(partner.log(), "x", 0)
    assert (partner.questions, found.count, found.searched, found.next) == (4, 4, 4 * MIB, 4 * MIB)


def test_a_slow_partner_holds_a_search_and_a_download_for_a_while_only() -> None:
    partner = Partner(b"one line without an end" * 300_000, seconds=SEARCH_SECONDS * 0.6)
    found = search(partner.log(), "LINE", 0)
    assert (partner.questions, found.searched) == (2, 2 * MIB)
    assert (found.next, found.count) == (2 * MIB, 1), "it goes on behind what was searched, and misses nothing"
    partner = Partner(b"x" * 4 * MIB, seconds=DOWNLOAD_SECONDS / 3)
    with pytest.raises(PeerUnreachable, match=r"^host 10000 sends its log too slowly: 2097152 of 4194304 bytes$"):
        list(partner.log().download())


def test_half_of_a_character_in_the_log_of_a_partner_is_shown_as_a_question_mark(tmp_path: Path) -> None:
    browser = Browser(make_world(tmp_path))
    task = f"/board/jobs/{add_filled_task(browser.world)}/tasks/toy_0"
    said = {"text": "\ud800", "next_offset": 1, "bytes": 1, "status": "exited"}
    browser.world.peers.answers = {"/task/log": Answer(data=said)}
    of_host = "?party=host-10000"
    assert ">\n?</pre>" in browser.page(f"{task}/log{of_host}").text
    assert browser.get(f"{task}/log/piece{of_host}").get_json()["text"] == "?"
    assert browser.get(f"{task}/log/file{of_host}").data == b"?"
    assert "1 line with" in browser.page(f"{task}/log{of_host}&find=%3F").readable


def test_few_requests_wait_for_logs_of_partners_at_once(tmp_path: Path) -> None:
    assert [PartnerPlaces(threads).count for threads in (4, 16, 32, 1024)] == [1, 2, 4, 4]
    browser = Browser(make_world(tmp_path))
    task = f"/board/jobs/{add_filled_task(browser.world)}/tasks/toy_0"
    said = {"text": "x", "next_offset": 1, "bytes": 1, "status": "exited"}
    browser.world.peers.answers = {"/task/log": Answer(data=said)}
    file, page = f"{task}/log/file?party=host-10000", f"{task}/log?party=host-10000"
    begun = [browser.get(file) for _ in range(4)]
    assert [one.status_code for one in begun] == [200] * 4
    assert browser.get(file).status_code == 503
    assert "waits for logs of other parties 4 times already" in browser.page(page).readable
    assert browser.get(f"{task}/log/file").status_code == 200, "a log that is here waits for nobody"
    begun[0].close()
    assert browser.get(page).status_code == 200
    assert ">\nx</pre>" in browser.page(page).text


def test_the_log_of_a_partner_is_read_as_a_whole() -> None:
    content = "żółw\n".encode() * 200_000
    partner = Partner(content)
    assert b"".join(partner.log().download()) == content
    partner = Partner(content[:-3])                  # it ends inside of a character
    assert b"".join(partner.log().download()) == content[:-4]
    assert search(Partner(content).log(), "ŻÓŁW", 0).count == 200_000


# ---------------------------------------------------------------------- bytes that are not UTF-8


def test_hits_have_the_offsets_of_their_lines_whatever_the_bytes_before(tmp_path: Path) -> None:
    line = b"\xff\xfe\x80 step \xf0\x9f\n"
    content = line * 110_000
    found = list(found_in(component_log(tmp_path, content), "STEP"))
    assert found[:200] == [(number * len(line), "\ufffd\ufffd\ufffd step \ufffd") for number in range(200)]
    source = component_log(tmp_path, content + b"the end\n" + b"\xff" * 10)
    source.most_searched = MIB
    assert list(found_in(source, "the end")) == [(len(content), "the end")]


def test_a_search_misses_no_line_between_two_pages(tmp_path: Path) -> None:
    lines = [b"\xff" * (number % 7) + b"line %d" % number for number in range(100_000)]
    source = component_log(tmp_path, b"\n".join(lines))
    source.most_searched = 100_000
    at, count, pages = 0, 0, 0
    while pages == 0 or at:
        found = search(source, "line", at)
        at, count, pages = found.next, count + found.count, pages + 1
    assert (count, pages > 5) == (100_000, True)


def test_a_download_has_the_bytes_of_the_file_or_fails(tmp_path: Path) -> None:
    content = b"\xff\x00\r\n" * 1_000_000
    source = component_log(tmp_path, content)
    whole = source.download()
    source.path.unlink()
    assert (whole.size, b"".join(whole)) == (len(content), content)
    source = component_log(tmp_path, content)
    cut = source.download()
    source.path.write_bytes(content[:100])
    with pytest.raises(OperationFailed, match=rf"^INFO.log: has 100 bytes only; it had {len(content)}$"):
        list(cut)
    for one in (whole, cut):
        one.close()
    source.path.unlink()
    assert (source.download().size, list(source.download())) == (0, [])


def test_a_download_says_how_long_it_is(tmp_path: Path) -> None:
    browser = Browser(make_world(tmp_path))
    task = f"/board/jobs/{add_filled_task(browser.world)}/tasks/toy_0"
    response = browser.get(f"{task}/log/file?stream=stderr")
    assert response.headers["Content-Length"] == str(len(response.data))
