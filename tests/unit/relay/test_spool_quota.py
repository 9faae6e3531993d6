"""How much of the spool the messages of one other party may take."""

from __future__ import annotations

import logging
import struct
from pathlib import Path

import pytest

from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_result import Problem, Refusal
from fate_flow.relay.spool_session import PartyKey
from tests.kit.relay.spool_calls import BLOCK, GUEST, HERE, HOST, NEW, total

THIRD = ("host", "10001")
LIMITS = SpoolLimits(chunk_bytes=BLOCK, unread_bytes=100 * BLOCK, total_bytes=20 * BLOCK)
QUOTAS = Quotas("10000", PartyQuota(spool_share=0.5), {"10001": PartyQuota(spool_share=0.25)})
TEXT = (
    f"the messages of party 9999 that wait at party 10000 take as much of the {20 * BLOCK} bytes of the spool as they "
    "may, at most 0.5 (quotas.default.spool_share, which only an operator of party 10000 can change): more is stored "
    "once some are read"
)


def opened(root: Path) -> Spool:
    spool = Spool(root, LIMITS, lambda: None, quotas=QUOTAS)
    spool.open(HERE, (GUEST, HOST, THIRD), "token")
    return spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return opened(tmp_path)


def push(spool: Spool, seq: int, sender: PartyKey = GUEST, topic: str = "t") -> object:
    result = spool.put(HERE, topic, sender, seq, True, b"x")
    return result.problem if isinstance(result, Refusal) else result


def stored(spool: Spool, sender: PartyKey, topic: str = "t") -> int:
    """How many chunks of a block each are stored until one is refused."""
    for seq in range(100):
        found = push(spool, seq, sender, topic)
        if found != NEW:
            assert found is Problem.BACKLOG
            return seq
    return 100


def of_party(spool: Spool, party_id: str) -> int:
    path = Path(spool._root, "parties", party_id)
    return int.from_bytes(path.read_bytes(), "little") if path.exists() else 0


def test_a_party_takes_its_share_and_others_have_the_rest(spool: Spool) -> None:
    assert stored(spool, GUEST) == 9, "half of 20 blocks, one of which is that of the channel"
    assert spool.put(HERE, "t", GUEST, 9, True, b"x") == Refusal(Problem.BACKLOG, TEXT)
    assert stored(spool, THIRD) == 4, "a quarter"
    assert (total(spool), of_party(spool, "9999"), of_party(spool, "10001")) == (15 * BLOCK, 10 * BLOCK, 5 * BLOCK)


def test_topics_that_a_sender_invents_count_too(spool: Spool) -> None:
    found = [push(spool, 0, GUEST, f"topic {number}") for number in range(7)]
    assert found == [NEW] * 5 + [Problem.BACKLOG] * 2
    assert len(list(Path(spool._root, "sessions").glob("*/*/*.0"))) == 5


def test_own_workers_have_no_quota(spool: Spool) -> None:
    assert [push(spool, seq, HOST) for seq in range(19)] == [NEW] * 19
    assert push(spool, 19, HOST) is Problem.FULL


def test_what_is_read_makes_space(spool: Spool) -> None:
    assert stored(spool, GUEST) == 9
    for seq in range(3):
        assert spool.get(HERE, "t", GUEST, seq) is not None
    assert [push(spool, seq) for seq in (9, 10, 11)] == [NEW, NEW, Problem.BACKLOG], "the last is not confirmed yet"


def test_a_repeated_push_of_what_is_there_is_answered_as_before(spool: Spool) -> None:
    assert stored(spool, GUEST) == 9
    result = spool.put(HERE, "t", GUEST, 8, True, b"x")
    assert (result, push(spool, 9)) != (NEW, NEW)
    assert not isinstance(result, Refusal)


@pytest.mark.parametrize("end", ["close", "purge", "release"])
def test_the_end_of_a_session_gives_everything_back(spool: Spool, end: str) -> None:
    assert stored(spool, GUEST) == 9
    if end == "close":
        spool.close(HERE)
    elif end == "purge":
        spool.purge(HERE.job_id)
    else:
        spool.release(HERE, "t", GUEST)
    assert of_party(spool, "9999") == (BLOCK if end == "release" else 0)


def test_a_start_counts_again(spool: Spool, tmp_path: Path) -> None:
    assert stored(spool, GUEST) == 9
    Path(spool._root, "parties", "9999").write_bytes((77).to_bytes(8, "little"))
    Path(spool._root, "parties", "10001").write_bytes((77).to_bytes(8, "little"))
    again = opened(tmp_path)
    assert (of_party(again, "9999"), of_party(again, "10001")) == (10 * BLOCK, 0)


def test_a_channel_of_an_older_release_is_read_on_and_counted_for_nobody(spool: Spool, tmp_path: Path) -> None:
    assert push(spool, 0) == NEW
    channel = next(path for path in Path(spool._root, "sessions").glob("*/*/*") if len(path.name) == 40)
    channel.write_bytes(struct.pack("<QQQ", 1, 0, BLOCK))
    again = opened(tmp_path)
    assert (total(again), of_party(again, "9999")) == (2 * BLOCK, 0)
    assert [push(again, seq) for seq in range(1, 15)] == [NEW] * 14
    assert spool.get(HERE, "t", GUEST, 0) is not None
    again.close(HERE)
    assert (total(again), of_party(again, "9999")) == (0, 0)


def test_the_log_has_one_line(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert [stored(spool, GUEST, f"topic {number}") for number in range(3)] == [9, 0, 0]
    assert [one for one in caplog.messages if "quota" in one] == [f"a quota refuses party '9999': {TEXT}"]
