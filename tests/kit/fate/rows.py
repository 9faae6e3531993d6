"""Rows of two organisations, made up from a seed: what each knows of its customers, and whether they paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import exp
from random import Random

from tests.kit.servers.party_servers import PartyServer

LABEL, ID = "y", "id"
BANK, TELECOM = ("age", "income", "noise"), ("calls", "bill", "roaming")
WEIGHTS = (1.6, -1.2, 0.0, 1.3, -1.5, 0.0)
NAMESPACE = "trial"

Row = dict[str, float]


def customers(seed: int, numbers: Sequence[int], columns: Sequence[str], weights: Sequence[float]) -> dict[str, Row]:
    """Rows by their ids. The label `y` is likely 1 where the weighted sum of the columns is high.

    A column has a weight of 0 if it says nothing about the label. Each has another mean and width."""
    chance, found = Random(seed), {}
    for number in numbers:
        drawn = [chance.gauss(0, 1) for _ in columns]
        paid = chance.random() < 1 / (1 + exp(-sum(w * x for w, x in zip(weights, drawn, strict=True))))
        row = {name: round(at + (at + 1) * x, 4) for at, (name, x) in enumerate(zip(columns, drawn, strict=True))}
        found[f"c{number:04}"] = {LABEL: int(paid), **row}
    return found


def csv_of(rows: Mapping[str, Row], columns: Sequence[str], ids: Sequence[str]) -> str:
    lines = [(ID, *columns), *((sid, *(rows[sid][name] for name in columns)) for sid in ids)]
    return "".join(f"{','.join(map(str, line))}\n" for line in lines)


def table_of(rows: Mapping[str, Row], columns: Sequence[str], ids: Sequence[str]) -> list[list[float]]:
    """The values of these columns, a list for each id."""
    return [[rows[sid][name] for name in columns] for sid in ids]


@cache
def everybody() -> Mapping[str, Row]:
    """All customers of a bank and of a telecom company."""
    return customers(14, range(200), (*BANK, *TELECOM), WEIGHTS)


def labels(ids: Sequence[str]) -> list[float]:
    return [everybody()[one][LABEL] for one in ids]


OF_BANK, OF_TELECOM = sorted(everybody())[:160], sorted(everybody())[40:]
COMMON = OF_BANK[40:]


def give(party: PartyServer, name: str, text: str, **meta: object) -> None:
    """The table of this name, of which FATE's components are given these words."""
    party.has_table(name, text, namespace=NAMESPACE, meta=meta)
