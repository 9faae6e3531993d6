"""The bindings of job ids."""

from __future__ import annotations

import json
from typing import Any

from peewee import fn

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.spec import Party
from fate_flow.store.contract.bindings import namespace_of
from fate_flow.store.database.json_text import to_json
from fate_flow.store.database.model_rows import StoredModelRow
from fate_flow.store.database.models import BindingRow, JobRow, StorageTableRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.sql.unit import SqlUnitOfWork


class Bindings(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def binding(self, job_id: str) -> JobBinding | None:
        row = _BINDING.row(self._database, job_id)
        if row is None:
            return None
        role, party_id, parties, digest, revision = row
        return JobBinding(job_id, Party(role, party_id), frozenset(_parties(parties)), digest, int(revision))

    def bind(self, binding: JobBinding) -> bool:
        values = {
            "f_job_id": binding.job_id,
            "f_initiator_role": binding.initiator.role,
            "f_initiator_party_id": binding.initiator.party_id,
            "f_parties": to_json([[party.role, party.party_id] for party in sorted(binding.parties)]),
            "f_digest": binding.digest,
            "f_revision": binding.revision,
        }
        return insert_new(self._database, BindingRow, values, BindingRow.f_job_id == binding.job_id)

    def rebind(self, old: JobBinding, digest: str, revision: int) -> bool:
        is_it = (
            (BindingRow.f_job_id == old.job_id)
            & (BindingRow.f_digest == old.digest)
            & (BindingRow.f_revision == old.revision)
        )
        return hit(BindingRow.update(f_digest=digest, f_revision=revision).where(is_it))

    def unbind(self, job_id: str) -> bool:
        if self._is_known(job_id):
            return False
        return hit(BindingRow.delete().where(BindingRow.f_job_id == job_id))

    def unused_bindings(self, after: str, limit: int) -> tuple[str, ...]:
        rows = (
            BindingRow.select(BindingRow.f_job_id)
            .where(
                (BindingRow.f_job_id > after)
                & ~fn.EXISTS(_rows_of(BindingRow.f_job_id)) & ~fn.EXISTS(_models_of(BindingRow.f_job_id))
            )
            .order_by(BindingRow.f_job_id)
            .limit(limit)
            .tuples()
        )
        return tuple(row[0] for row in rows)

    def _is_known(self, job_id: str) -> bool:
        tables = StorageTableRow.select(StorageTableRow.f_name).where(
            StorageTableRow.f_namespace == namespace_of(job_id)
        )
        return any(query.tuples().first() for query in (_rows_of(job_id), tables, _models_of(job_id)))


def _rows_of(job_id: Any) -> Any:
    return JobRow.select(JobRow.f_job_id).where(JobRow.f_job_id == job_id)


def _models_of(job_id: Any) -> Any:
    return StoredModelRow.select(StoredModelRow.f_job_id).where(StoredModelRow.f_job_id == job_id)


def _parties(text: str) -> list[Party]:
    return [Party(role, party_id) for role, party_id in json.loads(text)]


_BINDING = Prepared(
    lambda job_id: BindingRow.select(
        BindingRow.f_initiator_role, BindingRow.f_initiator_party_id, BindingRow.f_parties, BindingRow.f_digest,
        BindingRow.f_revision,
    ).where(BindingRow.f_job_id == job_id),
    1,
)  # fmt: skip
