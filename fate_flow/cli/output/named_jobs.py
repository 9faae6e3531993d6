"""The jobs that an answer mentions: their names and when they were created, which the server sends beside `data`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from fate_flow.cli.console.display import one_line
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.console.wording import job_title, short_moment, status_of
from fate_flow.cli.output.lists import is_for_people, show_as


@dataclass(frozen=True)
class NamedJobs:
    """Empty for an answer of a server of an older release, which does not say it."""

    known: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, answer: ServerReply) -> NamedJobs:
        found = answer.envelope.get("jobs")
        return cls(found if isinstance(found, Mapping) else {})

    def name(self, job_id: object) -> str:
        return str(self._of(job_id).get("name") or "")

    def status(self, job_id: object) -> str:
        return str(status_of(self._of(job_id)) or "")

    def created(self, job_id: object) -> str:
        return short_moment(self._of(job_id).get("create_time"))

    def title(self, job_id: object) -> str:
        """Return `job 42 (monthly totals), created 11-22 09:55`, as far as it is known."""
        created = self.created(job_id)
        return job_title(job_id, self.name(job_id)) + (f", created {created}" if created else "")

    def _of(self, job_id: object) -> Mapping[str, Any]:
        return self.known.get(str(job_id)) or {}


def show_with_jobs(answer: ServerReply, as_json: bool | None, tell: Callable[[Any, NamedJobs], None]) -> None:
    """Print the answer as `show_as` does; `tell` also gets the jobs that it mentions."""
    jobs = NamedJobs.of(answer)
    show_as(answer, as_json, lambda data: tell(data, jobs))


def show_of_job(answer: ServerReply, job_id: object, as_json: bool | None, tell: Callable[[Any], None]) -> None:
    """Print an answer about one job; for people, with a line that says which one, if the server knows it."""
    jobs = NamedJobs.of(answer)
    if is_for_people(as_json) and answer.is_success and str(job_id) in jobs.known:
        click.echo(one_line(jobs.title(job_id)))
    show_as(answer, as_json, tell)
