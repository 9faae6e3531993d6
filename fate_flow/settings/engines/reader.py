"""The section `engines`: the engines of the party by name, and which of them is the default.

A new kind of engine gets a row in `KINDS`, and one in `fate_flow/server/engines/kinds.py`, which builds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import LOCAL
from fate_flow.settings.engines.engine_settings import ONLY_DEFAULTS, EngineSettings
from fate_flow.settings.engines.kubernetes import KUBERNETES, read_kubernetes
from fate_flow.settings.engines.local import IN_FATE, read_local, read_standalone
from fate_flow.settings.engines.ray import RAY, read_ray
from fate_flow.settings.engines.slurm import SLURM, read_slurm
from fate_flow.settings.reading.party_ids import read_party_ids
from fate_flow.settings.reading.section import Section, collected

KINDS: Mapping[str, Callable[[Section], EngineSettings]] = {
    LOCAL: read_local, SLURM: read_slurm, RAY: read_ray, KUBERNETES: read_kubernetes,
}
"""What reads the keys of an engine besides `kind` and `default`, by the kind. The caller refuses those
that it has not read."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")


@collected
def read_engines(root: Section) -> Mapping[str, EngineSettings]:
    """Return the engines by name, the default first. `local` is always among them."""
    given, in_fate = root.section("engines"), root.get(IN_FATE, {})
    found: dict[str, EngineSettings] = {}
    defaults: list[str] = []
    for name in given.names():
        one = _section_of(given, name)
        if one.flag("default", False):
            defaults.append(name)
        found[name] = _engine(name, one)
        one.refuse_others()
    if in_fate and LOCAL in found:
        raise BadSettings(
            f"{given.name(LOCAL)}: is given, and {IN_FATE} as well: both say how much the engine {LOCAL} has; remove "
            f"{IN_FATE} (in a file that is laid over another one: {IN_FATE}: null)"
        )
    if LOCAL not in found:
        found[LOCAL] = read_standalone(root.section(IN_FATE)) if in_fate else ONLY_DEFAULTS
    if len(defaults) > 1:
        named = " and ".join(given.section(name).name("default") for name in defaults)
        raise BadSettings(f"{named}: are true, but one engine is the default")
    first = defaults or list(found)[:1]
    return {name: found[name] for name in dict.fromkeys((*first, *found))}


def _section_of(given: Section, name: Any) -> Section:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadSettings(
            f"{given.name(str(name))}: is not a name: a small letter, then up to 29 small letters, digits, _ and -"
        )
    return given.section(name)


def _engine(name: str, one: Section) -> EngineSettings:
    """Read the keys of one engine. `kind` may be left out where the name is that of a kind."""
    kind = one.text("kind", name if name in KINDS else "")
    if not kind:
        raise BadSettings(f"{one.name('kind')}: is missing; it is {_known()}")
    if kind not in KINDS:
        raise BadSettings(f"{one.name('kind')}: {kind!r} is no kind of engine; known here: {_known()}")
    if name in KINDS and kind != name:
        raise BadSettings(f"{one.name('kind')}: {kind!r} is not the kind of an engine with the name {name}")
    parties = None if one.get("parties") is None else read_party_ids(one, "parties")
    return replace(KINDS[kind](one), parties=parties)


def _known() -> str:
    return ", ".join(sorted(KINDS))
