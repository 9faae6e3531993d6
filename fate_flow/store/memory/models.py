"""The store of models, in memory; the counterpart of `sql/models.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.store.memory.tables import as_json
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import Deployment, ModelTag, StoredModel


class Models(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def save_model(self, model: StoredModel) -> None:
        kept = changed(model, roles=as_json(model.roles), metadata=as_json(model.metadata))
        self._rows.models.put((model.reference, model.party), kept)

    def add_model(self, model: StoredModel) -> bool:
        if self.model(model.reference, model.party) is not None:
            return False
        self.save_model(model)
        return True

    def model(self, reference: ModelReference, party: Party) -> StoredModel | None:
        return self._rows.models.rows.get((reference, party))

    def drop_model(self, reference: ModelReference, party: Party) -> bool:
        return self._rows.models.drop((reference, party))

    def models(self, model_id: str = "", limit: int = 1_000) -> tuple[StoredModel, ...]:
        return self._by_age(lambda one: model_id in ("", one.reference.model_id))[:limit]

    def models_of_version(self, model_id: str, version: int) -> tuple[StoredModel, ...]:
        return self._by_age(lambda one: (one.reference.model_id, one.reference.version) == (model_id, version))

    def newest_version(self, model_id: str) -> int | None:
        return max((one.reference.version for one in self._of_id(model_id)), default=None)

    def versions_by_output(self, model_id: str) -> Mapping[tuple[str, str], frozenset[int]]:
        found: dict[tuple[str, str], set[int]] = {}
        for one in self._of_id(model_id):
            found.setdefault((one.reference.task, one.reference.output), set()).add(one.reference.version)
        return {named: frozenset(versions) for named, versions in found.items()}

    def initiators_of_model(self, model_id: str) -> frozenset[str]:
        return frozenset(one.initiator for one in self._of_id(model_id))

    def newest_of_others(self, model_id: str, party: Party, job_id: str) -> int | None:
        others = [one for one in self._of_id(model_id) if one.party == party and one.job_id != job_id]
        return max((one.reference.version for one in others), default=None)

    def models_of_job(self, job_id: str) -> tuple[StoredModel, ...]:
        return self._by_age(lambda one: one.job_id == job_id)

    def _of_id(self, model_id: str) -> list[StoredModel]:
        return [one for one in self._rows.models.rows.values() if one.reference.model_id == model_id]

    def _by_age(self, is_meant: Callable[[StoredModel], bool]) -> tuple[StoredModel, ...]:
        found = filter(is_meant, self._rows.models.rows.values())
        return tuple(sorted(found, key=lambda one: (-one.create_time, one.reference, one.party)))

    def bytes_of_models(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for one in self._rows.models.rows.values():
            found[one.initiator] = found.get(one.initiator, 0) + one.size
        return found

    def save_deployment(self, deployment: Deployment) -> None:
        self._rows.deployments.put(deployment.name, changed(deployment, document=as_json(deployment.document)))

    def deployment(self, name: str) -> Deployment | None:
        return self._rows.deployments.rows.get(name)

    def deployments(self, model_id: str) -> tuple[Deployment, ...]:
        found = [one for one in self._rows.deployments.rows.values() if one.model_id == model_id]
        return tuple(sorted(found, key=lambda one: (one.create_time, one.name)))

    def drop_deployments(self, model_id: str, version: int) -> int:
        gone = [one.name for one in self.deployments(model_id) if one.version == version]
        return sum(self._rows.deployments.drop(name) for name in gone)

    def save_model_tag(self, tag: ModelTag) -> None:
        self._rows.model_tags.put(tag.name, tag)

    def model_tag(self, name: str) -> ModelTag | None:
        return self._rows.model_tags.rows.get(name)

    def model_tags(self, limit: int) -> tuple[ModelTag, ...]:
        return tuple(sorted(self._rows.model_tags.rows.values(), key=lambda one: one.name))[:limit]

    def drop_model_tag(self, name: str) -> bool:
        for key in [key for key in self._rows.tagged_models.rows if key[0] == name]:
            self._rows.tagged_models.drop(key)
        return self._rows.model_tags.drop(name)

    def tag_model(self, name: str, model_id: str) -> bool:
        is_new = (name, model_id) not in self._rows.tagged_models.rows
        if is_new:
            self._rows.tagged_models.put((name, model_id), model_id)
        return is_new

    def untag_model(self, name: str, model_id: str) -> bool:
        return self._rows.tagged_models.drop((name, model_id))

    def tags_of_model(self, model_id: str) -> tuple[ModelTag, ...]:
        rows, tags = self._rows.tagged_models.rows, self._rows.model_tags.rows
        return tuple(tags[name] for name, of in sorted(rows) if of == model_id and name in tags)

    def models_with_tag(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(of for one, of in self._rows.tagged_models.rows if one == name))
