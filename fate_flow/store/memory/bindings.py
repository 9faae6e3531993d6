"""Bindings in memory; the counterpart of `sql/bindings.py`."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.access.authority import JobBinding
from fate_flow.store.contract.bindings import namespace_of
from fate_flow.store.memory.unit import MemoryUnitOfWork


class Bindings(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def binding(self, job_id: str) -> JobBinding | None:
        return self._rows.bindings.rows.get(job_id)

    def bind(self, binding: JobBinding) -> bool:
        if binding.job_id in self._rows.bindings.rows:
            return False
        self._rows.bindings.put(binding.job_id, binding)
        return True

    def rebind(self, old: JobBinding, digest: str, revision: int) -> bool:
        known = self.binding(old.job_id)
        if known is None or (known.digest, known.revision) != (old.digest, old.revision):
            return False
        self._rows.bindings.put(old.job_id, replace(known, digest=digest, revision=revision))
        return True

    def unbind(self, job_id: str) -> bool:
        namespace = namespace_of(job_id)
        has_tables = any(key[0] == namespace for key in self._rows.tables.rows)
        if has_tables or job_id in self._with_rows() or job_id in self._with_models():
            return False
        return self._rows.bindings.drop(job_id)

    def unused_bindings(self, after: str, limit: int) -> tuple[str, ...]:
        unused = self._rows.bindings.rows.keys() - self._with_rows() - self._with_models()
        return tuple(sorted(job_id for job_id in unused if job_id > after)[:limit])

    def _with_rows(self) -> set[str]:
        return {key.job_id for key in self._jobs.rows}

    def _with_models(self) -> set[str]:
        return {one.job_id for one in self._rows.models.rows.values()}
