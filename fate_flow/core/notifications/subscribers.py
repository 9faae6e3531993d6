"""Who is notified of what, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from fate_flow.core.notifications.notification import Occasion

EMAIL = "email"
"""The channel of all mail: they share one server."""
_WEBHOOK = "webhook"
KINDS = (EMAIL, _WEBHOOK)


@dataclass(frozen=True)
class Target:
    """Where a notification goes. What is sent over one channel is sent one after the other."""

    channel: str             # EMAIL, or webhook/ and a name
    person: str = ""         # empty: a webhook that is nobody's


def webhook_channel(name: str) -> str:
    return f"{_WEBHOOK}/{name}"


def kind_of(channel: str) -> str:
    """Return which of KINDS this is."""
    return EMAIL if channel == EMAIL else _WEBHOOK


@dataclass(frozen=True)
class Person:
    """Somebody of this party; named as the client with which this person signs, if clients sign."""

    name: str
    targets: tuple[Target, ...]
    occasions: frozenset[Occasion]
    has_all_jobs: bool = False       # of JOB_ENDED; otherwise those that this person has submitted


@dataclass(frozen=True)
class Subscribers:
    """All who are notified of anything; nobody by default."""

    webhooks: Mapping[str, frozenset[Occasion]] = field(default_factory=dict)      # by channel
    people: Mapping[str, Person] = field(default_factory=dict)                     # by name
    silence: int = 60_000            # milliseconds after which a partner counts as silent here

    @property
    def are_some(self) -> bool:
        return bool(self.webhooks or self.people)

    def wants(self, occasion: Occasion) -> bool:
        """Return whether anybody may be notified of this."""
        people = (one.occasions for one in self.people.values())
        return any(occasion in wanted for wanted in (*self.webhooks.values(), *people))

    def targets(
        self, occasion: Occasion, chosen: Mapping[str, Collection[Occasion]], owner: str = "", without: str = "",
    ) -> Iterator[Target]:  # fmt: skip
        """Yield where to notify of this. `chosen`: what people have chosen, of what the configuration gives them;
        `owner`: who has submitted the job that has ended; `without`: who knows of it already."""
        yield from (Target(channel) for channel, wanted in self.webhooks.items() if occasion in wanted)
        for person in self.people.values():
            is_theirs = occasion is not Occasion.JOB_ENDED or person.has_all_jobs or person.name == owner
            is_wanted = occasion in person.occasions and occasion in chosen.get(person.name, person.occasions)
            if is_theirs and is_wanted and person.name != without:
                yield from person.targets
