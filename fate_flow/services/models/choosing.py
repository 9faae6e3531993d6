"""Choosing the versions of stored models that a job file names by a deployment, or as the newest ones.

Only the server that takes the file chooses, among its own parts, when it takes it: no other party knows its
deployments, and a later version must not change a job that waits. The file that all parties get has the version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadDocument
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.spec import ModelReference
from fate_flow.jobspec.fate_v1.model_document import MODEL
from fate_flow.jobspec.native.unchosen_models import DEPLOYED, DEPLOYMENT, LATEST, Steps, unchosen_models, with_values
from fate_flow.jobspec.text.document import Node
from fate_flow.services.context.ports import Context
from fate_flow.services.models.predicting import models_in
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Deployment


@dataclass(frozen=True)
class Chosen:
    """A job file with a version for each stored model."""

    file: Any
    texts: tuple[str, ...] = ()                # what was chosen for which input, for the history of the job
    problems: tuple[BadDocument, ...] = ()


def with_chosen_models(context: Context, file: Any) -> Chosen:
    """Return the file as all parties get it. What has a wrong form stays, for the reader of the file to report."""
    found = unchosen_models(file)
    return context.read(lambda tx: _Choice(tx, found).of(file)) if found else Chosen(file)


class _Choice:
    def __init__(self, tx: Transaction, found: Mapping[Steps, Node]) -> None:
        self._tx, self._found = tx, found
        self._values: dict[Steps, Any] = {}
        self._texts: list[str] = []

    def of(self, file: Any) -> Chosen:
        newest: dict[str, list[Steps]] = defaultdict(list)
        for steps, node in self._found.items():
            if DEPLOYMENT in node.value:
                self._by_name(steps, node)
            elif node.value["version"] == DEPLOYED:
                self._as_deployed(steps, node)
            else:
                newest[str(node.value.get("id"))].append(steps)
        for model_id, places in newest.items():
            self._as_newest(model_id, places)
        problems = tuple(one for node in self._found.values() for one in node.findings.problems)
        return Chosen(with_values(file, self._values), tuple(self._texts), tuple(dict.fromkeys(problems)))

    def _by_name(self, steps: Steps, node: Node) -> None:
        name = node.value[DEPLOYMENT]
        for key in ("id", "version"):
            if node.at(key).is_given:
                node.at(key).wrong(f"is given beside {DEPLOYMENT}, which names a model and its version")
                return
        deployment = self._tx.deployment(str(name))
        if deployment is None:
            node.at(DEPLOYMENT).wrong(
                f"{shown(name)} is not a deployed model here (flow model list; flow model deploy makes one)"
            )
        else:
            self._deployed(steps, node, deployment, f"{DEPLOYMENT} {deployment.name}")

    def _as_deployed(self, steps: Steps, node: Node) -> None:
        model_id = str(node.value.get("id"))
        known = self._tx.deployments(model_id)
        if known:
            self._deployed(steps, node, known[-1], f"{DEPLOYED}, as {known[-1].name},")
        else:
            node.at("version").wrong(f"no version of model {shown(model_id)} is deployed here (flow model deploy)")

    def _deployed(self, steps: Steps, node: Node, deployment: Deployment, named: str) -> None:
        task, output = str(node.value.get("task")), str(node.value.get("output"))
        has = models_in(deployment.document["dsl"])
        if (task, output) in has:
            self._choose(steps, node, deployment.model_id, deployment.version, named)
        else:
            listed = ", ".join(sorted({".".join(one) for one in has})) or "no models"
            node.at("task").wrong(f"{task}.{output} is not in deployment {deployment.name}, which has {listed}")

    def _as_newest(self, model_id: str, places: list[Steps]) -> None:
        """Choose the newest version that has all that the file names of this model. What was made at other parties
        alone, as by an arbiter, does not count."""
        versions = self._tx.versions_by_output(model_id)
        nodes = [self._found[steps] for steps in places]
        named = {(str(node.value.get("task")), str(node.value.get("output"))) for node in nodes}
        here = [versions[one] for one in named if one in versions] or list(versions.values())
        common = frozenset.intersection(*here) if here else frozenset()
        for steps, node in zip(places, nodes, strict=True):
            if common:
                self._choose(steps, node, model_id, max(common), LATEST)
            elif here:
                listed = ", ".join(sorted(".".join(one) for one in named))
                node.at("version").wrong(f"no version of model {model_id} here has all of {listed} (flow model list)")
            else:
                node.at("id").wrong(f"{shown(model_id)} is not in the store of this party (flow model list)")

    def _choose(self, steps: Steps, node: Node, model_id: str, version: int, named: str) -> None:
        task, output = node.value.get("task"), node.value.get("output")
        rest = {key: one for key, one in node.value.items() if key != DEPLOYMENT}
        self._values[steps] = {"id": model_id, **rest, "version": version}
        if isinstance(task, str) and isinstance(output, str):
            is_now = ModelReference(model_id, version, task, output)
            self._texts.append(f"{node.path.removesuffix(f'.{MODEL}')}: {named} is {is_now}")
