"""The store contract for the store of models: this party's parts, deployments and tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.store.values import Deployment, ModelTag, StoredModel


class Models(Protocol):
    """Part of `contract.Transaction`."""

    def save_model(self, model: StoredModel) -> None:
        """Save a model; it replaces one of the same reference and party."""

    def add_model(self, model: StoredModel) -> bool:
        """Save a new model; False if there is one of the same reference and party.

        Another transaction that adds the same one waits until this one ends: that guards the file of the model, too."""

    def model(self, reference: ModelReference, party: Party) -> StoredModel | None: ...

    def drop_model(self, reference: ModelReference, party: Party) -> bool: ...

    def models(self, model_id: str = "", limit: int = 1_000) -> tuple[StoredModel, ...]:
        """Return the models with this id, or of all, the newest first; those of one time by reference and party.

        This is for lists. Who needs all of a version or of a job asks for these."""

    def models_of_version(self, model_id: str, version: int) -> tuple[StoredModel, ...]:
        """Return all parts of one version of a model, in the order of `models`."""

    def newest_version(self, model_id: str) -> int | None:
        """Return the highest version of a model; None if there is no model with this id."""

    def versions_by_output(self, model_id: str) -> Mapping[tuple[str, str], frozenset[int]]:
        """Return the versions of a model by task and output, of any party."""

    def initiators_of_model(self, model_id: str) -> frozenset[str]:
        """Return the ids of the parties whose jobs have made models with this id."""

    def newest_of_others(self, model_id: str, party: Party, job_id: str) -> int | None:
        """Return the highest version of a model that another job has stored for a party; None if none has."""

    def models_of_job(self, job_id: str) -> tuple[StoredModel, ...]:
        """Return what the tasks of a job have stored, in the order of `models`."""

    def bytes_of_models(self) -> Mapping[str, int]:
        """Return the bytes of all models by the initiators of the jobs that have made them."""
        ...

    def save_deployment(self, deployment: Deployment) -> None: ...

    def deployment(self, name: str) -> Deployment | None: ...

    def deployments(self, model_id: str) -> tuple[Deployment, ...]:
        """Return the deployments of any version of a model, the oldest first."""

    def drop_deployments(self, model_id: str, version: int) -> int:
        """Remove the deployments of this version; return how many there were."""

    def save_model_tag(self, tag: ModelTag) -> None:
        """Save a tag; it replaces one with the same name, and stays on its models."""

    def model_tag(self, name: str) -> ModelTag | None: ...

    def model_tags(self, limit: int) -> tuple[ModelTag, ...]:
        """Return tags by name."""

    def drop_model_tag(self, name: str) -> bool:
        """Remove a tag, also from all models."""

    def tag_model(self, name: str, model_id: str) -> bool:
        """Put a tag on a model; False if it has it already."""

    def untag_model(self, name: str, model_id: str) -> bool: ...

    def tags_of_model(self, model_id: str) -> tuple[ModelTag, ...]: ...

    def models_with_tag(self, name: str) -> tuple[str, ...]:
        """Return the ids of the models, in order."""
