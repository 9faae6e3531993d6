"""What is wrong between two parties, as one word: what has to be corrected, and so who can do it.

A problem comes as a sentence, also from the other party, which says why it does not reach this one. So the class is
read off the sentence; one that nobody knows is `other`.
"""

from __future__ import annotations

from enum import StrEnum


class PeerProblem(StrEnum):
    """The class of a problem between two parties."""

    NAME = "name"                # of the host, or of the party that answers there
    REFUSED = "refused"          # nothing listens there, or no way leads there
    TLS = "TLS"
    CLOCK = "clock"
    KEY = "key"                  # one of the two does not know, or no longer accepts, a key of the other
    SIGNATURE = "signature"
    VERSION = "version"          # the other server does not know what it is asked
    PROXY = "proxy"              # something in between answers, or changes what is answered
    SILENT = "no answer"
    OTHER = "other"


ITS_STATUS = "its server answers with HTTP status"
"""Before the status of an answer that names its party, so that no proxy has made it."""

_SIGNS: tuple[tuple[PeerProblem, tuple[str, ...]], ...] = (
    (PeerProblem.CLOCK, ("compare the clocks", "correct the clocks")),
    (PeerProblem.NAME, (
        "cannot be resolved", "another server", "no route here", "this is party", "this server is party",
        "is no name of this server",
    )),
    (PeerProblem.REFUSED, (
        "connection refused", "no route to its", "keeps no connection open", "is not connected", "HTTP status 403",
    )),
    (PeerProblem.PROXY, ("a proxy in between",)),
    (PeerProblem.KEY, (
        "accepts none of our keys", "key list", "by no key", "no key", "no valid key", "no tls key", "no public key",
        "key id", "keyid", "revoked",
    )),
    (PeerProblem.VERSION, ("its release is too old",)),
    (PeerProblem.SIGNATURE, ("signature", "signed", "not authenticated")),
    (PeerProblem.TLS, ("TLS", "certificate")),
    (PeerProblem.VERSION, ("HTTP status 404", "HTTP status 405", "does not offer", "protocol")),
    (PeerProblem.OTHER, (ITS_STATUS,)),
    (PeerProblem.PROXY, ("HTTP status", "not JSON", "broken off or garbled", "is not an object")),
    (PeerProblem.SILENT, ("in time", "connection lost", "no answer")),
)  # fmt: skip
"""Parts of sentences; the first that fits counts."""


def problem_in(text: str) -> PeerProblem:
    """Return the class of a problem that this sentence describes."""
    return next((found for found, signs in _SIGNS if any(sign in text for sign in signs)), PeerProblem.OTHER)
