"""The section of an engine of kind `kubernetes`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import EngineSize
from fate_flow.settings.engines.engine_settings import EngineSettings, read_size
from fate_flow.settings.engines.labels import read_labels
from fate_flow.settings.engines.partners import read_partners
from fate_flow.settings.reading.section import Section

KUBERNETES = "kubernetes"
_VOLCANO = "volcano"
GANG_SCHEDULERS = ("auto", "none", _VOLCANO, "coscheduling")
_PULLS = ("IfNotPresent", "Always", "Never")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class PodShare:
    """What the pods of somebody's jobs get of the cluster."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    kueue_queue: str = ""
    volcano_queue: str = ""
    priority_class: str = ""


@dataclass(frozen=True)
class KubernetesSettings(EngineSettings):
    """The configuration of one namespace of one cluster."""

    size: EngineSize = field(default_factory=lambda: EngineSize(1, 0))
    kind: str = KUBERNETES
    image: str = ""
    namespace: str = ""                      # empty: that of the pod of this server; outside of the cluster, default
    kubeconfig: Path | None = None           # None: the service account of the pod of this server
    context: str = ""                        # of the kubeconfig; empty: its current one
    python: str = "python3"                  # in the image
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    service_account: str = ""
    own: PodShare = field(default_factory=PodShare)
    partners: Mapping[str, PodShare] = field(default_factory=dict)        # by party id
    kueue_check: str = ""                    # the AdmissionCheck that this server answers; empty: none
    scheduler: str = ""                      # of pods, by name; empty: that of the cluster, or the one for gangs
    gang_scheduler: str = GANG_SCHEDULERS[0]             # with `scheduler`, auto is as none
    run_as_user: int | None = None
    volume_claim: str = ""                   # of a volume with the home; empty: workers are staged
    keep_seconds: int = 3600                 # of a Job that has ended
    longest_pending: float = 3600.0          # seconds; 0: for ever
    poll_seconds: float = 5.0
    settle_seconds: float = 30.0


def read_kubernetes(section: Section) -> KubernetesSettings:
    """Raises BadSettings."""
    image = section.text("image")
    if not image:
        raise BadSettings(f"{section.name('image')}: is missing: the image of workers, with this release of fate_flow")
    user, own = section.whole("run_as_user", -1, -1), _share(section, PodShare())
    found = KubernetesSettings(
        section=section.path,
        size=replace(read_size(section), gpus=section.whole("gpus", 0)),
        config=section.values,
        has_queues=True,
        labels=read_labels(section, _node_labels),
        image=image,
        namespace=_name(section, "namespace"),
        kubeconfig=section.path_with_links("kubeconfig"),
        context=section.text("context"),
        python=section.text("python", "python3"),
        pull_policy=_one_of(section, "pull_policy", _PULLS),
        pull_secrets=_names(section, "pull_secrets"),
        service_account=_name(section, "service_account"),
        own=own,
        partners=read_partners(section, own, _share),
        kueue_check=_name(section, "kueue_check"),
        scheduler=_name(section, "scheduler"),
        gang_scheduler=_one_of(section, "gang_scheduler", GANG_SCHEDULERS),
        run_as_user=None if user < 0 else user,
        volume_claim=_name(section, "volume_claim"),
        keep_seconds=section.whole("keep_seconds", 3600, 60),
        longest_pending=section.number("longest_pending", 3600.0),
        poll_seconds=section.number("poll_seconds", 5.0, 0.1),
        settle_seconds=section.number("settle_seconds", 30.0),
    )
    _refuse_unused(section, found)
    return found


def _refuse_unused(section: Section, found: KubernetesSettings) -> None:
    """Refuse keys that would have no effect beside the others. Raises BadSettings."""
    if found.scheduler and found.gang_scheduler == _VOLCANO:
        raise BadSettings(
            f"{section.name('scheduler')}: {found.scheduler!r} would place the pods instead of Volcano, which "
            f"{section.name('gang_scheduler')} names: set one of both"
        )
    if found.gang_scheduler == _VOLCANO or (found.gang_scheduler == GANG_SCHEDULERS[0] and not found.scheduler):
        return
    partners = section.section("partners")
    shares = [(section, found.own), *((partners.section(key), share) for key, share in found.partners.items())]
    for one, share in shares:
        if share.volcano_queue:
            others = f"{section.name('gang_scheduler')} {found.gang_scheduler!r}"
            others += f" and {section.name('scheduler')} {found.scheduler!r}" if found.scheduler else ""
            raise BadSettings(
                f"{one.name('volcano_queue')}: {share.volcano_queue!r} has no effect, since Volcano places no pods "
                f"with {others}: leave it out, or set {section.name('gang_scheduler')} to volcano, without a scheduler"
            )


def _share(section: Section, base: PodShare) -> PodShare:
    """Read the keys of a share; what is missing is as in `base`."""
    return PodShare(
        base.node_selector if section.get("node_selector") is None else _texts(section, "node_selector"),
        base.tolerations if section.get("tolerations") is None else _objects(section, "tolerations"),
        _name(section, "kueue_queue", base.kueue_queue),
        _name(section, "volcano_queue", base.volcano_queue),
        _name(section, "priority_class", base.priority_class),
    )


def _node_labels(labels: Section, word: str) -> Mapping[str, str]:
    """Return the labels of nodes that a label of jobs stands for."""
    found = _texts(labels, word)
    if not found:
        raise BadSettings(f"{labels.name(word)}: names no label of nodes, such as {{disk: ssd}}")
    return found


def _one_of(section: Section, key: str, known: Sequence[str]) -> str:
    found = section.text(key, known[0])
    if found not in known:
        raise BadSettings(f"{section.name(key)}: {found!r} is not one of {', '.join(known)}")
    return found


def _name(section: Section, key: str, default: str = "") -> str:
    found = section.text(key, default)
    if found and not _NAME.fullmatch(found):
        raise BadSettings(f"{section.name(key)}: {found!r} is not a name of Kubernetes: small letters, digits, - and .")
    return found


def _names(section: Section, key: str) -> tuple[str, ...]:
    found = section.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in found):
        raise BadSettings(f"{section.name(key)}: {found!r} is not a list of names of Kubernetes")
    return tuple(found)


def _texts(section: Section, key: str) -> Mapping[str, str]:
    found = section.get(key, {})
    if not isinstance(found, dict) or not all(isinstance(one, str) for pair in found.items() for one in pair):
        raise BadSettings(f"{section.name(key)}: {found!r} is not a mapping of labels to texts, such as {{disk: ssd}}")
    return found


def _objects(section: Section, key: str) -> tuple[Mapping[str, Any], ...]:
    found = section.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadSettings(f"{section.name(key)}: {found!r} is not a list of tolerations, as in the spec of a pod")
    return tuple(found)
