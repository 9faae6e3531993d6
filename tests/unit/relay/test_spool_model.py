"""The spool says what lists in memory would say, whatever the order of the calls."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fate_flow.relay.channel_files import Message
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_result import Problem, Refusal
from tests.kit.relay.spool_calls import AGAIN, BLOCK, GUEST, HERE, NEW, PEERS, a_spool, chunks, total

pytestmark = pytest.mark.long


class Model(RuleBasedStateMachine):
    """Two processes, two topics, any order of calls: the spool says what lists in memory would say."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="spool"))
        self.spools = [self.process(), self.process()]
        self.spools[0].open(HERE, PEERS, "token")
        self.held: dict[str, list[Message]] = {"a": [], "b": []}
        self.confirmed = {"a": 0, "b": 0}
        self.made: set[str] = set()
        self.is_open = True

    def process(self) -> Spool:
        return a_spool(self.root, chunk_bytes=2 * BLOCK, unread_bytes=3 * BLOCK, total_bytes=6 * BLOCK)

    def teardown(self) -> None:
        shutil.rmtree(getattr(self, "root", ""), ignore_errors=True)

    def blocks(self, topic: str) -> int:
        return sum(1 if len(m.data) <= BLOCK else 2 for m in self.held[topic][self.confirmed[topic]:])

    def total_blocks(self) -> int:
        return len(self.made) + sum(map(self.blocks, self.held)) if self.is_open else 0

    def expected_put(self, topic: str, seq: int, message: Message) -> object:
        held = self.held[topic]
        if len(message.data) > 2 * BLOCK:
            return Problem.TOO_LARGE
        if not self.is_open:
            return AGAIN if seq < len(held) else Problem.GONE
        if seq > len(held):
            return Problem.SKIPPED
        if seq < len(held):
            same = seq < self.confirmed[topic] or held[seq] == message
            return AGAIN if same else Problem.DIFFERENT
        cost = 1 if len(message.data) <= BLOCK else 2
        if topic in self.made and self.blocks(topic) + cost > 3:
            return Problem.BACKLOG
        if self.total_blocks() + cost + (topic not in self.made) > 6:
            return Problem.FULL
        self.made.add(topic)
        held.append(message)
        return NEW

    @rule(who=st.integers(0, 1), topic=st.sampled_from("ab"), ahead=st.integers(-2, 1), last=st.booleans(),
          size=st.sampled_from([0, 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1]), fill=st.sampled_from("xy"))
    def put(self, who: int, topic: str, ahead: int, last: bool, size: int, fill: str) -> None:
        seq = max(0, len(self.held[topic]) + ahead)
        message = Message(fill.encode() * size, last)
        answer = self.spools[who].put(HERE, topic, GUEST, seq, last, message.data)
        said = answer.problem if isinstance(answer, Refusal) else answer
        assert said == self.expected_put(topic, seq, message)

    def expected_look(self, topic: str, seq: int, confirm: bool) -> object:
        if not self.is_open:
            return Problem.GONE
        if seq < self.confirmed[topic] or (confirm and seq > len(self.held[topic])):
            return Problem.SKIPPED
        if confirm:
            self.confirmed[topic] = seq
        return self.held[topic][seq] if seq < len(self.held[topic]) else None

    @rule(who=st.integers(0, 1), topic=st.sampled_from("ab"), ahead=st.integers(-1, 3), confirm=st.booleans())
    def look(self, who: int, topic: str, ahead: int, confirm: bool) -> None:
        seq = max(0, self.confirmed[topic] + ahead)
        ask = self.spools[who].get if confirm else self.spools[who].peek
        answer = ask(HERE, topic, GUEST, seq)
        said = answer.problem if isinstance(answer, Refusal) else answer
        assert said == self.expected_look(topic, seq, confirm)

    @rule(who=st.integers(0, 1), topic=st.sampled_from("ab"))
    def release(self, who: int, topic: str) -> None:
        assert (self.spools[who].release(HERE, topic, GUEST) is None) == self.is_open
        if self.is_open:
            self.confirmed[topic] = len(self.held[topic])

    @rule(who=st.integers(0, 1))
    def restart(self, who: int) -> None:
        self.spools[who] = self.process()

    @precondition(lambda self: sum(map(len, self.held.values())) > 6)
    @rule(who=st.integers(0, 1))
    def close(self, who: int) -> None:
        self.spools[who].close(HERE)
        self.is_open = False

    @invariant()
    def counts_what_it_holds(self) -> None:
        if hasattr(self, "root"):
            assert total(self.spools[0]) == self.total_blocks() * BLOCK
            expected = sum(len(self.held[t]) - self.confirmed[t] for t in "ab") if self.is_open else 0
            assert len(chunks(self.spools[0])) == expected


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestModel = Model.TestCase
