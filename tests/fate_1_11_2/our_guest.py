"""A guest of ours and a host of FATE Flow 1.11.2: what each says reaches the other at once, in its order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer, Command, Job, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.envelope import read_answer
from fate_flow.core.wire.v1.job_bodies import is_ahead
from fate_flow.core.wire.v1.paths import endpoint_of
from fate_flow.core.wire.v1.plain_v1 import body_for_unknown
from fate_flow.peers.send_queue import MAY_FAIL
from fate_flow.services.scheduling.events import Answered
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.store.values import Document
from tests.fate_1_11_2.our_server import FATE, OURS, OurServer
from tests.fate_1_11_2.peer import FatePeer
from tests.kit.values import JOB_ID

GUEST, HOST = Party("guest", OURS), Party("host", FATE)
PARAMETERS = {"Reader": {"table": {"name": "t", "namespace": "peer"}}, "SecureSum": {"column": "x"}}


def readers(count: int = 1, **parameters: Any) -> Document:
    """A chain of tasks at both parties, one after the other since one core is all that the job asks for."""
    names = [f"reader_{number}" for number in range(count)]
    return job_of({name: {"module": "Reader", "output": {"data": ["data"]}} for name in names}, **parameters)


def job_of(components: Mapping[str, Any], **parameters: Any) -> Document:
    of_each = {name: PARAMETERS.get(one["module"], {}) for name, one in components.items()}
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": int(OURS)},
        "role": {"guest": [int(OURS)], "host": [int(FATE)]},
        "job_parameters": {"common": {"task_cores": 2, **parameters}},
        "component_parameters": {"common": of_each},
    }  # fmt: skip
    return Document({"components": dict(components)}, conf, {})


class OurGuest:
    """`is_away`: the host does not answer; what must arrive is sent again when it does."""

    def __init__(self, peer: FatePeer | None = None, job_id: str = JOB_ID) -> None:
        self.ours, self.peer, self.job_id = OurServer(), peer or FatePeer(FATE), job_id
        self.use_cases = UseCases(
            self.ours.hand.context, self.ours._wake, 4, 60.0, monotonic=lambda: self.ours.seconds, sleep=self._wait
        )
        self.is_away = False
        self.alters: Callable[[Command], Mapping[str, Any] | None] = lambda _: None     # an answer in place of its own
        self._kept: list[Command] = []

    def _wait(self, seconds: float) -> None:
        self.ours.seconds += seconds
        self.pump()

    def submit(self, document: Document | None = None) -> str:
        """Raises as the use cases do."""
        job_id = self.use_cases.submits.submit(self.job_id, self.ours.hand.parsed(document or readers()))
        self.pump()
        return job_id

    def pump(self) -> None:
        """Until nobody has anything more to say."""
        while True:
            self.ours.settle()
            commands = [*self._kept, *self.ours.sends()]
            self._kept = []
            if not commands and not self.peer.said:
                return
            for command in commands:
                self._exchange(command)
            self._hear()
            if self.is_away:
                return

    def _exchange(self, command: Command) -> None:
        if self.is_away and command.kind not in MAY_FAIL:
            self._kept.append(command)
            return
        self.ours.scheduler.step([Answered(command, self._answer(command))])
        self._hear()

    def _answer(self, command: Command) -> Answer:
        if self.is_away:
            return Answer(UNREACHABLE, "no answer in time")
        if is_ahead(command.body):
            return Answer(UNREACHABLE, "a plain v1 server takes one command at a time")
        body = json.loads(json.dumps(body_for_unknown(command)))
        given = self.alters(command)
        return read_answer(self.peer.answer(endpoint_of(command), body) if given is None else given)

    def _hear(self) -> None:
        said, self.peer.said = self.peer.said, []
        for path, body in said:
            assert self.ours.hears(path, body, self.peer.headers(OURS))["retcode"] == 0, path

    def after(self, seconds: float) -> None:
        self.ours.after(seconds)
        self.pump()

    def beats(self) -> None:
        self.ours.scheduler.beat()
        self.pump()

    # ------------------------------------------------------------------ the tasks

    def ours_succeeds(self, name: str = "reader_0", version: int = 0) -> None:
        self.ours.succeeds(TaskKey(self.job_id, name, version, GUEST))
        self.pump()

    def theirs_ends(self, name: str = "reader_0", status: str = "success") -> None:
        self.peer.ends(self.job_id, name, status)
        self.pump()

    def task_succeeds(self, name: str = "reader_0", version: int = 0) -> None:
        self.ours_succeeds(name, version)
        self.theirs_ends(name)

    @property
    def job(self) -> Job:
        return self.ours.job(self.job_id, "guest")
