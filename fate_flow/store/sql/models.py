"""The store of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peewee import fn

from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.database.model_rows import DeploymentRow, ModelTagRow, StoredModelRow, TaggedModelRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.sql.unit import SqlUnitOfWork
from fate_flow.store.values import Deployment, ModelTag, StoredModel


class Models(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def save_model(self, model: StoredModel) -> None:
        StoredModelRow.replace(**_row_of(model)).execute()

    def add_model(self, model: StoredModel) -> bool:
        return insert_new(self._database, StoredModelRow, _row_of(model), _is(model.reference, model.party))

    def model(self, reference: ModelReference, party: Party) -> StoredModel | None:
        row = StoredModelRow.get_or_none(_is(reference, party))
        return None if row is None else _model_of(row)

    def drop_model(self, reference: ModelReference, party: Party) -> bool:
        return hit(StoredModelRow.delete().where(_is(reference, party)))

    def models(self, model_id: str = "", limit: int = 1_000) -> tuple[StoredModel, ...]:
        row = StoredModelRow
        found = row.select().where(row.f_model_id == model_id) if model_id else row.select()
        return tuple(map(_model_of, _by_age(found).limit(limit)))

    def models_of_version(self, model_id: str, version: int) -> tuple[StoredModel, ...]:
        row = StoredModelRow
        found = row.select().where((row.f_model_id == model_id) & (row.f_model_version == version))
        return tuple(map(_model_of, _by_age(found)))

    def newest_version(self, model_id: str) -> int | None:
        return _highest(StoredModelRow.f_model_id == model_id)

    def versions_by_output(self, model_id: str) -> Mapping[tuple[str, str], frozenset[int]]:
        row = StoredModelRow
        columns = (row.f_component_name, row.f_output, row.f_model_version)
        found: dict[tuple[str, str], set[int]] = {}
        for task, output, version in row.select(*columns).where(row.f_model_id == model_id).distinct().tuples():
            found.setdefault((task, output), set()).add(version)
        return {named: frozenset(versions) for named, versions in found.items()}

    def initiators_of_model(self, model_id: str) -> frozenset[str]:
        row = StoredModelRow
        found = row.select(row.f_initiator_party_id).where(row.f_model_id == model_id).distinct().tuples()
        return frozenset(initiator for (initiator,) in found)

    def newest_of_others(self, model_id: str, party: Party, job_id: str) -> int | None:
        row = StoredModelRow
        of_party = (row.f_role == party.role) & (row.f_party_id == party.party_id)
        return _highest((row.f_model_id == model_id) & of_party & (row.f_job_id != job_id))

    def models_of_job(self, job_id: str) -> tuple[StoredModel, ...]:
        found = _OF_JOB.rows(self._database, job_id)
        return tuple(_model_of(StoredModelRow(**dict(zip(_COLUMNS, values, strict=True)))) for values in found)

    def bytes_of_models(self) -> Mapping[str, int]:
        row = StoredModelRow
        found = row.select(row.f_initiator_party_id, fn.SUM(row.f_bytes)).group_by(row.f_initiator_party_id)
        return {party_id: int(size) for party_id, size in found.tuples()}

    def save_deployment(self, deployment: Deployment) -> None:
        DeploymentRow.replace(
            f_name=deployment.name, f_model_id=deployment.model_id, f_model_version=deployment.version,
            f_document=to_json(dict(deployment.document)), f_create_time=deployment.create_time,
        ).execute()  # fmt: skip

    def deployment(self, name: str) -> Deployment | None:
        row = DeploymentRow.get_or_none(DeploymentRow.f_name == name)
        return None if row is None else _deployment_of(row)

    def deployments(self, model_id: str) -> tuple[Deployment, ...]:
        row = DeploymentRow
        found = row.select().where(row.f_model_id == model_id).order_by(row.f_create_time, row.f_name)
        return tuple(map(_deployment_of, found))

    def drop_deployments(self, model_id: str, version: int) -> int:
        row = DeploymentRow
        return int(row.delete().where((row.f_model_id == model_id) & (row.f_model_version == version)).execute())

    def save_model_tag(self, tag: ModelTag) -> None:
        ModelTagRow.replace(
            f_name=tag.name, f_description=tag.description, f_create_time=tag.create_time
        ).execute()

    def model_tag(self, name: str) -> ModelTag | None:
        row = ModelTagRow.get_or_none(ModelTagRow.f_name == name)
        return None if row is None else _tag_of(row)

    def model_tags(self, limit: int) -> tuple[ModelTag, ...]:
        return tuple(map(_tag_of, ModelTagRow.select().order_by(ModelTagRow.f_name).limit(limit)))

    def drop_model_tag(self, name: str) -> bool:
        hit(TaggedModelRow.delete().where(TaggedModelRow.f_name == name))
        return hit(ModelTagRow.delete().where(ModelTagRow.f_name == name))

    def tag_model(self, name: str, model_id: str) -> bool:
        values = {"f_name": name, "f_model_id": model_id}
        return insert_new(self._database, TaggedModelRow, values, _is_tagged(name, model_id))

    def untag_model(self, name: str, model_id: str) -> bool:
        return hit(TaggedModelRow.delete().where(_is_tagged(name, model_id)))

    def tags_of_model(self, model_id: str) -> tuple[ModelTag, ...]:
        on_it = TaggedModelRow.select(TaggedModelRow.f_name).where(TaggedModelRow.f_model_id == model_id)
        found = ModelTagRow.select().where(ModelTagRow.f_name.in_(on_it)).order_by(ModelTagRow.f_name)
        return tuple(map(_tag_of, found))

    def models_with_tag(self, name: str) -> tuple[str, ...]:
        row = TaggedModelRow
        return tuple(one for (one,) in row.select(row.f_model_id).where(row.f_name == name)
                     .order_by(row.f_model_id).tuples())


def _highest(where: Any) -> int | None:
    found = StoredModelRow.select(fn.MAX(StoredModelRow.f_model_version)).where(where).scalar()
    return None if found is None else int(found)


def _by_age(found: Any) -> Any:
    row = StoredModelRow
    return found.order_by(
        row.f_create_time.desc(), row.f_model_id, row.f_model_version, row.f_component_name, row.f_output, row.f_role,
        row.f_party_id,
    )  # fmt: skip


_COLUMNS = tuple(StoredModelRow._meta.sorted_field_names)
_OF_JOB = Prepared(         # it is asked for each new job, and finds hardly ever anything
    lambda job_id: _by_age(StoredModelRow.select().where(StoredModelRow.f_job_id == job_id)).tuples(), 1
)


def _is(reference: ModelReference, party: Party) -> Any:
    row = StoredModelRow
    return (
        (row.f_model_id == reference.model_id)
        & (row.f_model_version == reference.version)
        & (row.f_role == party.role)
        & (row.f_party_id == party.party_id)
        & (row.f_component_name == reference.task)
        & (row.f_output == reference.output)
    )


def _row_of(model: StoredModel) -> dict[str, Any]:
    of = model.reference
    return {
        "f_model_id": of.model_id, "f_model_version": of.version, "f_role": model.party.role,
        "f_party_id": model.party.party_id, "f_component_name": of.task, "f_output": of.output, "f_kind": model.kind,
        "f_sha256": model.sha256, "f_bytes": model.size, "f_job_id": model.job_id,
        "f_initiator_party_id": model.initiator, "f_task_version": model.task_version,
        "f_component_module": model.component, "f_roles": to_json(dict(model.roles)),
        "f_metadata": to_json(dict(model.metadata)), "f_create_time": model.create_time,
    }  # fmt: skip


def _is_tagged(name: str, model_id: str) -> Any:
    return (TaggedModelRow.f_name == name) & (TaggedModelRow.f_model_id == model_id)


def _model_of(row: StoredModelRow) -> StoredModel:
    return StoredModel(
        ModelReference(row.f_model_id, row.f_model_version, row.f_component_name, row.f_output),
        Party(row.f_role, row.f_party_id), row.f_kind, row.f_sha256, row.f_bytes, row.f_job_id,
        row.f_initiator_party_id, row.f_task_version, row.f_component_module, from_json(row.f_roles),
        from_json(row.f_metadata), row.f_create_time,
    )  # fmt: skip


def _deployment_of(row: DeploymentRow) -> Deployment:
    return Deployment(row.f_name, row.f_model_id, row.f_model_version, from_json(row.f_document), row.f_create_time)


def _tag_of(row: ModelTagRow) -> ModelTag:
    return ModelTag(row.f_name, row.f_description, row.f_create_time)
