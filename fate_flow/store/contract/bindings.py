"""The store contract for bindings: what a job id is bound to at this party (docs/explanation/authority.md)."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.access.authority import JobBinding

OUTPUT = "output_"        # with this and the job id, the names of namespaces of output tables begin


class Bindings(Protocol):
    """Part of `contract.Transaction`. A binding outlives the rows of its job: `unbind` alone removes it."""

    def binding(self, job_id: str) -> JobBinding | None: ...

    def bind(self, binding: JobBinding) -> bool:
        """Bind a job id; False if it is bound already, also by a transaction that has committed meanwhile."""

    def rebind(self, old: JobBinding, digest: str, revision: int) -> bool:
        """Bind the job to another document: compare-and-set on digest and revision. Initiator and parties stay."""

    def unbind(self, job_id: str) -> bool:
        """Remove the binding; False while a row, an output table or a stored model of the job is here."""

    def unused_bindings(self, after: str, limit: int) -> tuple[str, ...]:
        """Return, in order, ids behind `after` of jobs that have neither a row nor a stored model here."""


def namespace_of(job_id: str) -> str:
    """Return the namespace of the tables that tasks of this job make."""
    return f"{OUTPUT}{job_id}"
