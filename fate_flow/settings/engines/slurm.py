"""The section of an engine of kind `slurm`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import EngineSize
from fate_flow.settings.engines.engine_settings import EngineSettings, read_size
from fate_flow.settings.engines.labels import read_labels
from fate_flow.settings.engines.partners import read_partners
from fate_flow.settings.engines.scratch import SCRATCH, read_scratch, read_shared_home
from fate_flow.settings.reading.section import Section

SLURM = "slurm"
_FEATURES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]*(&[A-Za-z0-9_][A-Za-z0-9_.:=+-]*)*")


@dataclass(frozen=True)
class SlurmShare:
    """What jobs get of the cluster; empty: what Slurm gives by default."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""


@dataclass(frozen=True)
class SlurmSettings(EngineSettings):
    """The configuration of one cluster."""

    size: EngineSize = field(default_factory=lambda: EngineSize(1, 0))
    kind: str = SLURM
    own: SlurmShare = field(default_factory=SlurmShare)
    partners: Mapping[str, SlurmShare] = field(default_factory=dict)      # by party id
    commands: Path | None = None             # the folder of sbatch and its like; None: they are on PATH
    python: Path | None = None               # on the nodes; None: that of the server
    longest_pending: float = 3600.0          # seconds; 0: for ever
    longest_time: int = 0                    # seconds; 0: no limit
    poll_seconds: float = 5.0
    settle_seconds: float = 30.0
    shared_home: bool = True                 # whether the nodes see the home; else workers are staged
    scratch: Path = SCRATCH                  # on nodes without the home: where folders of workers are made


def read_slurm(section: Section) -> SlurmSettings:
    own = _share(section, SlurmShare())
    partners = read_partners(section, own, _share)
    return SlurmSettings(
        section=section.path,
        size=replace(read_size(section), gpus=section.whole("gpus", 0)),
        config=section.values,
        has_queues=True,
        labels=_features(section, (own, *partners.values())),
        own=own,
        partners=partners,
        commands=section.path_with_links("commands"),
        python=section.path_with_links("python"),
        longest_pending=section.number("longest_pending", 3600.0),
        longest_time=section.whole("longest_time", 0),
        poll_seconds=section.number("poll_seconds", 5.0, 0.1),
        settle_seconds=section.number("settle_seconds", 30.0),
        shared_home=read_shared_home(section),
        scratch=read_scratch(section),
    )


def _features(section: Section, shares: Iterable[SlurmShare]) -> Mapping[str, str]:
    """Read the features that labels stand for. They are joined to `constraint` by &, which therefore has no other
    operator then."""
    found = read_labels(section, _feature)
    for share in shares if found else ():
        if share.constraint and not _FEATURES.fullmatch(share.constraint):
            raise BadSettings(
                f"{section.name('constraint')}: {share.constraint!r} cannot be joined with {section.name('labels')}: "
                "with labels, it has names of features and & alone"
            )
    return found


def _feature(labels: Section, word: str) -> str:
    found = labels.text(word)
    if not _FEATURES.fullmatch(found):
        raise BadSettings(f"{labels.name(word)}: {found!r} is not the name of a feature of nodes, or several with &")
    return found


def _share(section: Section, base: SlurmShare) -> SlurmShare:
    return SlurmShare(
        partition=section.text("partition", base.partition),
        account=section.text("account", base.account),
        qos=section.text("qos", base.qos),
        constraint=section.text("constraint", base.constraint),
    )
