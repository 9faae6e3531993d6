"""How a party maps the queues that jobs name to its engines.

A job's `queue` is a word between the parties. What it stands for is each party's own: an engine, and what this engine
calls its queue (a partition of Slurm, a queue of Kubernetes). No job names these, and no party tells them to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

QUEUE_PATTERN = "[A-Za-z0-9_][A-Za-z0-9_-]{0,29}"
QUEUE = re.compile(QUEUE_PATTERN)
QUEUE_IS = "1 to 30 letters, digits, _ and -, no - first"
"""What the words of jobs for queues and for nodes (labels) are."""

MOST_LABELS = 10
"""Of one task, at one party."""


_TAG_LENGTH = 8


def tag_of(party_id: str, engine: str) -> str:
    """Return by what a party with several engines tells initiators that two numbers are of the same engine. It does not
    say which one, but who guesses the name can see that it is right."""
    return sha256(f"engine {engine} of party {party_id}".encode()).hexdigest()[:_TAG_LENGTH]


@dataclass(frozen=True)
class Placement:
    """Where the workers of a job go at one party."""

    engine: str = ""         # empty: the default one
    queue: str = ""          # as the engine calls it; empty: the one that the engine has for this


@dataclass(frozen=True)
class QueueRule:
    """One queue of a party."""

    placement: Placement
    parties: frozenset[str] | None = None        # whose jobs may name it, besides the party's own; None: anybody's
    default_for: frozenset[str] = frozenset()    # parties whose jobs go there if they name no queue


@dataclass(frozen=True)
class Queues:
    """The queues of a party, by the word in jobs. `engine_parties`: whose jobs may use an engine, besides the party's
    own; anybody's may use those that are not in it."""

    own_id: str = ""
    by_word: Mapping[str, QueueRule] = field(default_factory=dict)
    engine_parties: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def place(self, word: str, initiator: str) -> Placement | None:
        """Return where a job of this party goes; None if there is no such queue, or none for it. `word`: empty: the job
        names none."""
        if not word:
            rules = (
                one for one in self.by_word.values()
                if initiator in one.default_for and self.may_use(one.placement.engine, initiator)
            )  # fmt: skip
            return next((one.placement for one in rules), Placement())
        rule = self.by_word.get(word)
        return rule.placement if rule is not None and self._admits(rule, initiator) else None

    def may_use(self, engine: str, initiator: str) -> bool:
        """Return whether the engine is open to jobs of this party."""
        parties = self.engine_parties.get(engine)
        return parties is None or initiator in parties or initiator == self.own_id

    def may_reach(self, engine: str, initiator: str) -> bool:
        """Return whether a job of this party may go to an engine, not the default one, without naming a queue.

        It may if the engine is open to it, and a queue of the engine is for it, or the engine has none."""
        rules = [rule for rule in self.by_word.values() if rule.placement.engine == engine]
        is_for_it = not rules or any(self._admits(rule, initiator) for rule in rules)
        return is_for_it and self.may_use(engine, initiator)

    def known_to(self, initiator: str) -> list[str]:
        """Return the queues that jobs of this party may name."""
        return sorted(word for word, rule in self.by_word.items() if self._admits(rule, initiator))

    def _admits(self, rule: QueueRule, initiator: str) -> bool:
        is_for_it = rule.parties is None or initiator in rule.parties or initiator == self.own_id
        return is_for_it and self.may_use(rule.placement.engine, initiator)
