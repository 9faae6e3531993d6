"""Certificates that a company's own authority has signed for tls keys of parties.

A key list says which keys are those of a party, also if such a certificate is shown. The authority lets the handshake
of TLS succeed; the name says whose connection it is, should two parties have listed one key.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CertifiedParty:
    """What the configuration says of the certificates of one other party."""

    name: str                        # in lower case: one of the DNS names in its certificates
    authorities: str = field(repr=False)      # their certificates (PEM)
