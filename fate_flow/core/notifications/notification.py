"""A notification: what has occurred, in values from closed sets and one sentence made of them.

It has no parameters, no messages of programs and no addresses: it leaves the organisation's servers, and mail and chat
keep it for years. Whoever wants to know more follows the link to the board and signs in there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from hashlib import sha256

from fate_flow.core.text.phrases import sanitized

LONGEST_NAME = 100              # characters of the name of a job
LONGEST_SENTENCE = 500


class Occasion(Enum):
    """What people may be notified of; the value stands in the configuration, in a webhook and in the database."""

    APPROVAL_NEEDED = "approval_needed"      # a job of another party waits for a decision of this one
    JOB_ENDED = "job_ended"
    PARTNER_SILENT = "partner_silent"        # also that it answers again
    CONTRADICTION = "contradiction"          # in the records of this party and others
    TEST = "test"                            # an operator tries a target; nobody chooses it


OCCASIONS = tuple(one for one in Occasion if one is not Occasion.TEST)
"""Those that a person or a webhook may choose."""


@dataclass(frozen=True)
class Notification:
    """Equal occurrences have equal ids, also if they are found again after a restart."""

    id: str                      # msg_ and 32 hex digits; the same in each try, and for each target
    occasion: Occasion
    at: int                      # milliseconds since the epoch
    sentence: str
    job_id: str = ""
    job_name: str = ""           # as its user has named it
    run: int = 0
    partner: str = ""            # the id of the other party that it is about
    status: str = ""
    reason: str = ""


def notification_id(own_party_id: str, occasion: Occasion, *about: object) -> str:
    """Return the id of what has occurred at this party. `about`: what distinguishes it from others of this kind."""
    text = "\n".join([own_party_id, occasion.value, *map(str, about)])
    return f"msg_{sha256(text.encode()).hexdigest()[:32]}"


def one_line(text: str, most: int) -> str:
    """Return text of others as one line of printable characters, cut to `most`: it may get into a header of a mail."""
    return "".join(one if one.isprintable() else " " for one in sanitized(text, most)).strip()
