"""A party whose certificate a company's authority has made: its key is on its list, and nothing else decides."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from datetime import datetime
from pathlib import Path

import pytest

from fate_flow.core.access.certified import CertifiedParty
from fate_flow.core.model.errors import BadSettings
from fate_flow.peers.key_changes import CertificateFile
from fate_flow.peers.tls import NotAPeer, OwnTls, PeerKey, client_context, peer_of, public_pem, server_context
from fate_flow.settings.reader import load_settings
from tests.kit.gateway.gateway_world import World, gateway_world, is_refused, seconds
from tests.kit.gateway.virtual_time import run
from tests.kit.peers.handshakes import DAY, NOW, TlsParty, connect, ms, tls_party
from tests.kit.tls import Authority

NAME = "fate.bank.example"


@pytest.fixture
def company(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "company")


def entry(company: Authority, name: str = NAME) -> CertifiedParty:
    return CertifiedParty(name, company.file.read_text())


def known(party: TlsParty, certified: CertifiedParty | None) -> PeerKey:
    return PeerKey.of(party.party_id, public_pem(party.key.public_key()), certified)


def showing(party: TlsParty, company: Authority, file: Path, name: str = NAME) -> OwnTls:
    """The tls key of this party, with a certificate of the company in this file."""
    file.write_bytes(company.certificate(name, party.key.public_key(), NOW - DAY, NOW + DAY))
    return OwnTls(party.party_id, party.key, lambda: ms(NOW), certified=CertificateFile(file))


@pytest.mark.parametrize("ecdsa", [False, True])
def test_both_sides_are_known_by_their_keys_whoever_has_made_their_certificates(
    company: Authority, tmp_path: Path, ecdsa: bool
) -> None:
    here, there = tls_party("9999", ecdsa=ecdsa), tls_party("10000", ecdsa=ecdsa)
    mine = showing(here, company, tmp_path / "here.pem", NAME.upper())
    theirs = showing(there, company, tmp_path / "there.pem")
    of_here, of_there = known(here, entry(company)), known(there, entry(company))
    ends = connect(client_context(mine, [of_there]), server_context(theirs, [of_here]))
    assert peer_of(ends.client.getpeercert(True), [of_there], ms(NOW)) == of_there
    assert peer_of(ends.server.getpeercert(True), [of_here], ms(NOW)) == of_here
    # The same party with a certificate that it makes itself, as before.
    ends = connect(client_context(here.own, [of_there]), server_context(theirs, [of_here]))
    assert peer_of(ends.server.getpeercert(True), [of_here], ms(NOW)) == of_here


def test_the_authority_may_have_certificates_that_a_strict_check_refuses(company: Authority, tmp_path: Path) -> None:
    """Those that `openssl req -x509` makes do not say what their key is for."""
    bare, party, own = Authority(tmp_path, "bare", says_usage=False), tls_party("10000"), tls_party("9999").own
    peer = known(party, entry(bare))
    leaf = showing(party, bare, tmp_path / "party.pem")
    ends = connect(client_context(leaf, [own_key(own)]), server_context(own, [peer]))
    assert peer_of(ends.server.getpeercert(True), [peer], ms(NOW)) == peer


def test_the_authority_vouches_for_no_key_that_is_not_on_the_list(company: Authority, tmp_path: Path) -> None:
    party, thief = tls_party("10000"), tls_party("10000")
    peer, own = known(party, entry(company)), tls_party("9999").own
    leaf = showing(thief, company, tmp_path / "thief.pem")
    ends = connect(client_context(leaf, [own_key(own)]), server_context(own, [peer]))
    with pytest.raises(NotAPeer, match="signed by no key that is known and valid"):
        peer_of(ends.server.getpeercert(True), [peer], ms(NOW))


def test_without_an_entry_or_by_another_authority_there_is_no_handshake(company: Authority, tmp_path: Path) -> None:
    party, own = tls_party("10000"), tls_party("9999").own
    leaf = showing(party, company, tmp_path / "party.pem")
    for certified in (None, entry(Authority(tmp_path, "other"))):
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(client_context(leaf, [own_key(own)]), server_context(own, [known(party, certified)]))


def test_of_two_parties_that_list_one_key_the_one_has_the_connection_whose_name_is_in_the_certificate(
    company: Authority, tmp_path: Path
) -> None:
    party = tls_party("10000")
    thief = PeerKey.of("666", public_pem(party.key.public_key()), entry(company, "thief.example"))
    unnamed = PeerKey.of("667", public_pem(party.key.public_key()))
    leaf = showing(party, company, tmp_path / "party.pem").leaf().certificate
    peer = known(party, entry(company))
    for order in ([thief, unnamed, peer], [peer, unnamed, thief]):
        assert peer_of(leaf, order, ms(NOW)) == peer
    with pytest.raises(NotAPeer):
        peer_of(leaf, [thief, unnamed], ms(NOW))


def own_key(own: OwnTls) -> PeerKey:
    return PeerKey.of(own.party_id, public_pem(own._key.public_key()))


# ---------------------------------------------------------------------- the gateway


def test_the_gateway_knows_such_a_party_until_its_key_is_revoked(company: Authority, tmp_path: Path) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            party, context = certified_in(world, company, tmp_path / "party.pem")
            await asyncio.sleep(1)
            before = await world.connect(context=context)
            assert (await before.ask()).status == 200
            [served] = world.application.served
            assert served.values("X-Fate-Flow-Peer") == [f"10000 {party.peer.key_id}".encode()]
            began = seconds()
            world.keys.become(world.parties["10001"].peer)
            assert await before.rest() == b""
            assert seconds() - began <= 1.0
            assert await is_refused(world, context)
            await world.honest()

    run(test())


def certified_in(world: World, company: Authority, file: Path) -> tuple[TlsParty, ssl.SSLContext]:
    """Let the gateway know that party 10000 shows certificates of the company; what one of its clients shows."""
    party = world.parties["10000"]
    world.keys.become(known(party, entry(company)), world.parties["10001"].peer)
    return party, client_context(showing(party, company, file), [world.own.peer])


# ---------------------------------------------------------------------- the file


def test_a_file_that_has_nothing_valid_is_left_out_and_a_new_one_is_taken(
    company: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    party, file, now = tls_party("9999"), tmp_path / "own.pem", [NOW]
    own = OwnTls("9999", party.key, lambda: ms(now[0]), certified=CertificateFile(file))

    def written(since: datetime, until: datetime, signs: TlsParty = party) -> None:
        draft = tmp_path / "draft.pem"
        draft.write_bytes(company.certificate(NAME, signs.key.public_key(), since, until))
        os.replace(draft, file)

    def is_of_company() -> bool:
        assert own.leaf() is own.leaf(), "connections that are kept stay as they are"
        return b"company" in own.leaf().certificate

    with caplog.at_level(logging.ERROR):
        assert not is_of_company()
        written(NOW - DAY, NOW + DAY)
        assert is_of_company()
        now[0] += 2 * DAY
        assert not is_of_company()
        written(NOW, NOW + 90 * DAY)
        assert is_of_company()
        written(NOW, NOW + 90 * DAY, tls_party("9999"))
        assert not is_of_company()
        file.write_text("-----BEGIN CERTIFICATE-----\n")
        assert not is_of_company()
    said = [one.getMessage() for one in caplog.records]
    assert [text.split(": ")[1].split(";")[0][:44] for text in said] == [
        "cannot be read", f"its first certificate is valid from {NOW - DAY:%Y-%m}-",
        "its first certificate is of another key than", "has no certificate in PEM",
    ]
    assert all("that this server makes itself" in text for text in said)


# ---------------------------------------------------------------------- the configuration


def test_the_configuration_names_the_authorities_of_parties(company: Authority, tmp_path: Path) -> None:
    of_others = "{10000: {ca: company.pem, name: A.b}}"
    found = load_settings(conf(tmp_path, f"{{certificate: company.pem, certified: {of_others}}}"))
    assert found.parties_certificate == company.file
    assert found.certified_parties == {"10000": CertifiedParty("a.b", company.file.read_text())}


@pytest.mark.parametrize(("text", "message"), [
    ("{certificate: none.pem}", "parties.certificate: .*none.pem: cannot be read: No such file"),
    ("{certificate: conf.yaml}", "parties.certificate: .*conf.yaml: has no certificate in PEM"),
    ("{certified: {10000: {ca: company.pem}}}", "parties.certified.10000.name: is missing: the DNS name in the cert"),
    ("{certified: {10000: {name: a.b}}}", "parties.certified.10000.ca: is missing: the file with the certificates of"),
    ("{certified: {10000: {ca: none.pem, name: a.b}}}", "parties.certified.10000.ca: .*none.pem: cannot be read"),
    ("{certified: {10000: {ca: conf.yaml, name: a.b}}}", "parties.certified.10000.ca: .*: has no certificate of an au"),
    ("{certified: {10000: {ca: company.pem, name: 'a b'}}}", "parties.certified.10000.name: 'a b' is not a host name"),
    ("{certified: {9999: {ca: company.pem, name: a.b}}}", "parties.certified.9999: is this party itself"),
    ("{certified: {x: {ca: company.pem, name: a.b}}}", "parties.certified.x: 'x' is not a party id"),
    ("{certified: {10000: {ca: company.pem, name: a.b, names: 1}}}", "parties.certified.10000.names: no such key"),
])  # fmt: skip
def test_a_wrong_entry_is_named(company: Authority, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        load_settings(conf(tmp_path, text))


def conf(folder: Path, parties: str) -> Path:
    path = folder / "conf.yaml"
    path.write_text(f'party_id: "9999"\nhome: home\nparties: {parties}\n', encoding="utf-8")
    return path
