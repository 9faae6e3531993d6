"""The store of models, as clients manage it: nothing in it changes but by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from fate_flow.core.model.artifact import JSON_MODEL
from fate_flow.core.model.errors import Conflict, NotFound, OperationFailed, StorageFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.services.context.effects import RemoveModels
from fate_flow.services.context.space import check_space_for_client
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.archive import Archive, write_archive
from fate_flow.services.models.predicting import deploy, found_models
from fate_flow.services.use_cases.units import Units
from fate_flow.services.use_cases.who_asked import note_act
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Deployment, ModelTag, StoredModel

MOST_LISTED = 1_000


@dataclass(frozen=True)
class ModelParts:
    """Which parts of a model are meant: all of a version here, or some of them."""

    model_id: str = ""
    version: str = ""                # a number, or as in FATE v1 the id of a job or the name of a deployment
    party: Party | None = None
    task: str = ""
    output: str = ""

    def has(self, model: StoredModel) -> bool:
        return (
            self.party in (None, model.party) and self.task in ("", model.reference.task)
            and self.output in ("", model.reference.output)
        )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """Parts of one version of a model, with the deployments of this version and the tags of the model."""

    models: tuple[StoredModel, ...]
    deployed: tuple[Deployment, ...] = ()
    tags: tuple[ModelTag, ...] = ()
    named: Deployment | None = None      # the deployment by whose name it was asked for


class StoredModels:
    """The models of this party."""

    def __init__(self, units: Units) -> None:
        self._units = units

    # ------------------------------------------------------------------ reading

    def listed(self, model_id: str = "", limit: int = MOST_LISTED) -> tuple[Found, ...]:
        """Return the newest models by version, each at all seats of this party."""

        def read(tx: Transaction) -> tuple[Found, ...]:
            by_version: dict[tuple[str, int], list[StoredModel]] = {}
            for one in tx.models(model_id, limit):
                by_version.setdefault((one.reference.model_id, one.reference.version), []).append(one)
            return tuple(_with_deployments(tx, tuple(found)) for found in by_version.values())

        return self._units.context.read(read)

    def found(self, parts: ModelParts) -> Found:
        """Return the parts. Raises NotFound."""

        def read(tx: Transaction) -> Found:
            every, named = found_models(tx, parts.model_id, parts.version)
            return replace(_with_deployments(tx, _those(every, parts)), named=named)

        return self._units.context.read(read)

    def made_by(
        self, job_id: str, party: Party, task: str, task_version: int | None = None
    ) -> tuple[StoredModel, ...]:
        """Return what a version of a task has stored at a seat, under any id; None: what the newest run of the job that
        has stored models of it has."""

        def read(tx: Transaction) -> tuple[StoredModel, ...]:
            made = [one for one in tx.models_of_job(job_id) if (one.party, one.reference.task) == (party, task)]
            if task_version is not None:
                return tuple(one for one in made if one.task_version == task_version)
            newest = max((one.reference.version for one in made), default=0)
            return tuple(one for one in made if one.reference.version == newest)

        return self._units.context.read(read)

    def value(self, model: StoredModel, most_bytes: int) -> Any:
        """Return the value of a model that is one file of JSON; None if it is another one, or larger.

        Raises OperationFailed."""
        text = self._units.context.models.content(model, most_bytes) if model.kind == JSON_MODEL else None
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError) as error:
            raise OperationFailed(f"{model.reference}: its content is not JSON: {error}") from error

    def path(self, model: StoredModel) -> Path:
        return self._units.context.models.path(model)

    # ------------------------------------------------------------------ removal

    def delete(self, parts: ModelParts, by: str = "") -> tuple[StoredModel, ...]:
        """Remove models, rows and files, and return them. Raises NotFound; Conflict if an unfinished job reads one."""

        def delete(unit: UnitOfWork) -> tuple[StoredModel, ...]:
            every, _ = found_models(unit.tx, parts.model_id, parts.version)
            gone = _those(every, parts)
            _check_unread(unit, gone)
            for one in gone:
                unit.tx.drop_model(one.reference, one.party)
                _note(unit, f"{one.reference} was deleted at {one.party}", by)
            if len(gone) == len(every):
                unit.tx.drop_deployments(every[0].reference.model_id, every[0].reference.version)
            unit.after_commit(RemoveModels(gone))
            return gone

        return self._units.carry_out(delete, is_repeatable=False)

    # ------------------------------------------------------------------ in and out

    def export(self, parts: ModelParts, file: BinaryIO, by: str = "") -> Found:
        """Write the parts into a file, and return them. Raises NotFound, StorageFailed, NoSpace."""
        check_space_for_client(self._units.context)
        found = self.found(parts)
        try:
            write_archive(file, found.models, self._units.context.models)
        except OSError as error:
            raise StorageFailed(f"models cannot be exported: {os_error_text(error)}") from error
        text = f"{len(found.models)} models were exported, {found.models[0].reference} among them"
        self._units.carry_out(lambda unit: note_act(unit, "models exported", text, by))
        return found

    def take(self, path: Path, expected: ModelParts, by: str = "") -> tuple[StoredModel, ...]:
        """Store the models of an exported file, and return them; `expected`: what the client says that it has.

        Raises BadRequest if it is no such file; Conflict if one of them is here already; StorageFailed, NoSpace."""
        context = self._units.context
        check_space_for_client(context)
        with Archive(path, context.party_id) as archive:
            archive.check(expected.model_id, expected.version, expected.party)
            _check_new(context.read(lambda tx: _known(tx, archive.models)))
            drafts: dict[Path, StoredModel] = {}

            def save(unit: UnitOfWork) -> tuple[StoredModel, ...]:
                saved = tuple(replace(one, create_time=unit.now) for one in archive.models)
                # All rows before the first file: somebody else may have stored one of them meanwhile.
                _check_new([one for one in saved if not unit.tx.add_model(one)])
                context.models.place(drafts)
                for one in saved:
                    _note(unit, f"{one.reference} was imported at {one.party}", by)
                return saved

            try:
                for one in archive.models:
                    drafts[context.models.draft(one, archive.opened(one))] = one
                return self._units.carry_out(save, is_repeatable=False)
            except OSError as error:
                raise StorageFailed(f"models cannot be imported: {os_error_text(error)}") from error
            finally:
                for draft in drafts:
                    context.models.drop(draft)

    # ------------------------------------------------------------------ deployments

    def deploy(
        self, name: str, parts: ModelParts, tasks: Collection[str], dsl: Mapping[str, Any] | None, by: str = ""
    ) -> tuple[Deployment, StoredModel]:
        """Store a selection of the tasks of a model under a new name. Raises the errors of `predicting.deploy`."""

        def act(unit: UnitOfWork) -> tuple[Deployment, StoredModel]:
            made, part = deploy(unit, name, parts.model_id, parts.version, tasks, dsl)
            _note(unit, f"model {made.model_id} version {made.version} was deployed as {made.name}", by)
            return made, part

        return self._units.carry_out(act)

    # ------------------------------------------------------------------ tags

    def tags(self, limit: int = MOST_LISTED) -> tuple[ModelTag, ...]:
        return self._units.context.read(lambda tx: tx.model_tags(limit))

    def tag(self, name: str) -> tuple[ModelTag, tuple[str, ...]]:
        """Return a tag and the ids of its models. Raises NotFound."""
        return self._units.context.read(lambda tx: (_tag(tx, name), tx.models_with_tag(name)))

    def make_tag(self, name: str, description: str, by: str = "") -> ModelTag:
        """Raises Conflict if there is one of this name."""

        def make(unit: UnitOfWork) -> ModelTag:
            if unit.tx.model_tag(name) is not None:
                raise Conflict(f"tag {shown(name)} is there already")
            made = ModelTag(name, description, unit.now)
            unit.tx.save_model_tag(made)
            _note_tag(unit, f"tag {shown(name)} was made", by)
            return made

        return self._units.carry_out(make, is_repeatable=False)

    def change_tag(
        self, name: str, new_name: str = "", new_description: str | None = None, by: str = ""
    ) -> ModelTag:  # fmt: skip
        """Rename or describe a tag; it stays on its models. Raises NotFound, Conflict."""

        def change(unit: UnitOfWork) -> ModelTag:
            tag = _tag(unit.tx, name)
            new = replace(
                tag, name=new_name or name, description=tag.description if new_description is None else new_description
            )
            if new.name != name:
                if unit.tx.model_tag(new.name) is not None:
                    raise Conflict(f"tag {shown(new.name)} is there already")
                for model_id in unit.tx.models_with_tag(name):
                    unit.tx.tag_model(new.name, model_id)
                unit.tx.drop_model_tag(name)
            unit.tx.save_model_tag(new)
            renamed = "" if new.name == name else f", and is {shown(new.name)} now"
            _note_tag(unit, f"tag {shown(name)} was changed{renamed}", by)
            return new

        return self._units.carry_out(change, is_repeatable=False)

    def drop_tag(self, name: str, by: str = "") -> None:
        """Raises NotFound."""

        def drop(unit: UnitOfWork) -> None:
            _tag(unit.tx, name)
            unit.tx.drop_model_tag(name)
            _note_tag(unit, f"tag {shown(name)} was removed", by)

        self._units.carry_out(drop, is_repeatable=False)

    def tag_model(self, name: str, model_id: str, by: str = "") -> None:
        """Put a tag on a model; it is made if there is none. Raises NotFound for the model, Conflict if it has it."""

        def put(unit: UnitOfWork) -> None:
            found_models(unit.tx, "", model_id)
            if unit.tx.model_tag(name) is None:
                unit.tx.save_model_tag(ModelTag(name, "", unit.now))
            if not unit.tx.tag_model(name, model_id):
                raise Conflict(f"model {model_id} has the tag {shown(name)} already")
            _note_tag(unit, f"tag {shown(name)} was put on model {model_id}", by)

        self._units.carry_out(put, is_repeatable=False)

    def untag_model(self, name: str, model_id: str, by: str = "") -> None:
        """Raises NotFound."""

        def remove(unit: UnitOfWork) -> None:
            if not unit.tx.untag_model(name, model_id):
                raise NotFound(f"model {model_id} has no tag {shown(name)}")
            _note_tag(unit, f"tag {shown(name)} was taken off model {model_id}", by)

        self._units.carry_out(remove, is_repeatable=False)


def _with_deployments(tx: Transaction, models: tuple[StoredModel, ...]) -> Found:
    of = models[0].reference
    deployed = tuple(one for one in tx.deployments(of.model_id) if one.version == of.version)
    return Found(models, deployed, tx.tags_of_model(of.model_id))


def _those(models: tuple[StoredModel, ...], parts: ModelParts) -> tuple[StoredModel, ...]:
    found = tuple(one for one in models if parts.has(one))
    if not found:
        here = ", ".join(f"{one.reference.task}.{one.reference.output} at {one.party}" for one in models[:10])
        raise NotFound(f"no model: nothing of {models[0].reference.model_id} is meant; here is {here}")
    return found


def _known(tx: Transaction, models: Collection[StoredModel]) -> list[StoredModel]:
    return [one for one in models if tx.model(one.reference, one.party) is not None]


def _check_new(known: list[StoredModel]) -> None:
    if known:
        one = known[0]
        raise Conflict(f"{one.reference} is in the store of {one.party}, and is never overwritten: delete it first")


def _check_unread(unit: UnitOfWork, gone: Collection[StoredModel]) -> None:
    """Check that no unfinished job reads one of these models. Raises Conflict."""
    wanted: dict[tuple[ModelReference, Party], StoredModel] = {(one.reference, one.party): one for one in gone}
    for seat in unit.tx.open_seats():
        spec = unit.spec(seat.job_id)
        for task in spec.tasks_of(seat.party) if spec is not None else ():
            for reference in task.models_at(seat.party):
                if (reference, seat.party) in wanted:
                    raise Conflict(f"{reference} is read by job {seat.job_id}, which is not over")


def _tag(tx: Transaction, name: str) -> ModelTag:
    tag = tx.model_tag(name)
    if tag is None:
        raise NotFound(f"there is no tag {shown(name)} (flow tag list)")
    return tag


def _note(unit: UnitOfWork, text: str, by: str) -> None:
    note_act(unit, "models changed", text, by)


def _note_tag(unit: UnitOfWork, text: str, by: str) -> None:
    note_act(unit, "tags of models changed", text, by)
