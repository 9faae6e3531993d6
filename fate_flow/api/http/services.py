"""The dependencies of the HTTP routes: built in `fate_flow/server/http_processes.py`, passed to `create_*_app`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fate_flow.api.http.caller import caller, trace_of_request
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.services.context.counted_record import RequestRecord
from fate_flow.services.context.ports import Context
from fate_flow.services.context.recording import record_questions
from fate_flow.services.initiator.unaware import UnawareParties
from fate_flow.services.record.entries import Question
from fate_flow.services.record.verifying import Keys
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.settings.settings import Settings
from fate_flow.store.views.views import Views

Ask = Callable[[Party, str, Mapping[str, Any]], Answer]
"""Asks another party's server, at a path below `/v1`, with this body."""


@dataclass(frozen=True)
class Services:
    settings: Settings
    context: Context
    use_cases: UseCases
    views: Views                         # the read side: rows as clients see them
    new_job_id: Callable[[], str]
    ask_party: Ask
    unaware: UnawareParties = field(default_factory=UnawareParties)
    record_keys: Callable[[], Keys | None] = lambda: None     # by which the record is verified; None: it has no key
    requests: RequestRecord | None = None    # counts requests between parties that have no entry of their own

    @contextmanager
    def asking(self, what: str, job_id: str = "") -> Iterator[Ask]:
        """Yield what asks other parties for the client of this request, also from threads of the block.

        At the end of the block, and before the client reads an answer, one transaction records what was asked and
        answered. `what`: of a few words. Raises StorageFailed if that cannot be."""
        if not self.context.keeps_record:
            yield self.ask_party
            return
        by, trace, asked = caller(), trace_of_request(), list[Question]()

        def ask(to: Party, path: str, body: Mapping[str, Any]) -> Answer:
            at = self.context.clock()
            answer = self.ask_party(to, path, body)
            asked.append(Question(at, to, path, body, answer))
            return answer

        try:
            yield ask
        finally:
            record_questions(self.context, asked, what, by, job_id, trace)

    def asking_for_logs(self, job_id: str) -> Ask:
        """Return what asks another party for the output of its workers, for the client of this request, also after it.

        Each answer is recorded by itself. One without new text is not: who follows a log asks every few seconds."""
        if not self.context.keeps_record:
            return self.ask_party
        by, trace = caller(), trace_of_request()

        def ask(to: Party, path: str, body: Mapping[str, Any]) -> Answer:
            at = self.context.clock()
            answer = self.ask_party(to, path, body)
            if not (answer.is_ok and isinstance(answer.data, Mapping) and answer.data.get("text") == ""):
                record_questions(self.context, [Question(at, to, path, body, answer)], "task log", by, job_id, trace)
            return answer

        return ask
