"""A person chooses among what the configuration gives: less of it, never more, and never an address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fate_flow.core.model.errors import Conflict, NotFound
from fate_flow.core.model.grammar import shown
from fate_flow.core.notifications.notification import OCCASIONS, Occasion
from fate_flow.core.notifications.subscribers import Person
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import unit_of_work
from fate_flow.services.use_cases.who_asked import note_act


@dataclass(frozen=True)
class Choice:
    """Of what a person is notified, in the order of OCCASIONS."""

    person: Person
    given: tuple[Occasion, ...]          # by the configuration
    chosen: tuple[Occasion, ...]


def choice_of(context: Context, name: str) -> Choice:
    """Return of what this client is notified. Raise Conflict, NotFound."""
    person = _person(context, name)
    chosen = context.read(lambda tx: tx.chosen_occasions()).get(name, person.occasions)
    return Choice(person, _in_order(person.occasions), _in_order(person.occasions & chosen))


def choose(context: Context, name: str, wanted: Sequence[str] | None) -> Choice:
    """Let this client be notified of these occasions alone; None: of all that the configuration gives. Raise
    Conflict, NotFound."""
    person = _person(context, name)
    given = [one.value for one in _in_order(person.occasions)]
    for one in wanted or ():
        if one not in given:
            listed = ", ".join(given)
            raise Conflict(f"events: {shown(one)} is not one of those that the configuration gives {name}: {listed}")
    occasions = None if wanted is None else frozenset(map(Occasion, wanted))

    def store() -> None:
        with unit_of_work(context) as unit:
            unit.tx.choose_occasions(name, occasions, unit.now)
            listed = "all" if wanted is None else ", ".join(sorted(set(wanted))) or "none"
            note_act(unit, "notifications chosen", f"{name} chose to be notified of: {listed}", name)

    context.retry(store, is_repeatable=True)
    return choice_of(context, name)


def _person(context: Context, name: str) -> Person:
    if not name:
        raise Conflict("clients need not sign here (authentication.client.switch), so nobody knows who asks")
    person = context.subscribers.people.get(name)
    if person is None:
        raise NotFound(f"the configuration of the server names no address of {name} (notifications.people)")
    return person


def _in_order(occasions: frozenset[Occasion]) -> tuple[Occasion, ...]:
    return tuple(one for one in OCCASIONS if one in occasions)
