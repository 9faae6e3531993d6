"""The parameters of a job and its tasks, as its page shows them: each value once, with the parties that have it.

A document has up to 100,000 values and four million characters, and who watches a job asks for its page every few
seconds: a page has a part of them, with the number of all, and only that part is written as text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.api.v1.jobs.explain import parameters_by_party
from fate_flow.core.model.spec import JobSpec, Party

MOST_SHOWN = 500
"""Parameters on a page."""
MANY = 5_000
"""A page about more of them is asked for less often."""
WHOLE_JOB = ""
_LONGEST = 4_000                 # characters of a value
_ALL = "all parties"


@dataclass(frozen=True)
class Row:
    """A parameter: each value with the parties that have it."""

    key: str
    values: tuple[tuple[str, str], ...]

    @property
    def differs(self) -> bool:
        return [parties for parties, _ in self.values] != [_ALL]


@dataclass(frozen=True)
class ShownParameters:
    """`blocks`: by task, or `WHOLE_JOB`, its parameters. `first`: the number of the first one of them, from 0.
    `next`: that of the first one behind them; 0: there is none. `count`: of all."""

    blocks: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    first: int = 0
    next: int = 0
    count: int = 0

    @property
    def shown(self) -> int:
        return sum(map(len, self.blocks.values()))


def shown_parameters(spec: JobSpec | None, names: Collection[str], first: int = 0) -> ShownParameters:
    """Return the parameters of the whole job and of these tasks, as far as they are known here, from a number on."""
    if spec is None:
        return ShownParameters()
    tasks = ((one.name, one.parameters) for one in spec.tasks.values() if one.name in names)
    blocks, count = dict[str, tuple[Row, ...]](), 0
    for name, by_party in ((WHOLE_JOB, parameters_by_party(spec)), *tasks):
        known = {party: values for party, values in by_party.items() if values}
        keys = sorted({key for values in known.values() for key in values})
        some = keys[max(0, first - count) : max(0, first + MOST_SHOWN - count)]
        count += len(keys)
        if some:
            blocks[name] = tuple(Row(key, tuple(_values(known, key))) for key in some)
    behind = first + MOST_SHOWN
    return ShownParameters(blocks, first, behind if behind < count else 0, count)


def _values(by_party: Mapping[Party, Mapping[str, Any]], key: str) -> Iterable[tuple[str, str]]:
    """Return each value as text, with the parties that have it."""
    texts, found = dict[int, str](), dict[str, list[str]]()
    for party, values in by_party.items():
        if key in values:
            value = values[key]              # as a rule the same object at each party
            if id(value) not in texts:
                texts[id(value)] = json.dumps(value, sort_keys=True)
            found.setdefault(texts[id(value)], []).append(str(party))
    if len(found) == 1 and all(key in values for values in by_party.values()):
        return [(_ALL, _cut(one)) for one in found]
    return [(", ".join(parties), _cut(text)) for text, parties in found.items()]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
