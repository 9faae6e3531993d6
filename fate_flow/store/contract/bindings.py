"""What every store promises of bindings: what a job id stands for at this party (docs/explanation/authority.md)."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.access.authority import JobBinding


class Bindings(Protocol):
    """Part of `contract.Transaction`. A binding stays until its job has neither rows nor output tables here."""

    def binding(self, job_id: str) -> JobBinding | None: ...

    def bind(self, binding: JobBinding) -> bool:
        """False when the job id is bound already, also by a transaction that has committed meanwhile."""

    def rebind(self, old: JobBinding, digest: str, revision: int) -> bool:
        """Another document is in force: compare-and-set on digest and revision. Initiator and parties stay."""

    def unbind(self, job_id: str) -> bool:
        """The id stands for nothing any more; False while a row or an output table of the job is here."""

    def unused_bindings(self, after: str, limit: int) -> tuple[str, ...]:
        """Ids behind this one, in order, of which no row of a job is here."""


def namespace_of(job_id: str) -> str:
    """Of the tables that tasks of this job make."""
    return f"output_{job_id}"
