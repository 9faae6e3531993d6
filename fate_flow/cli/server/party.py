"""fate_flow party"""

from __future__ import annotations

import secrets
import sys
import time
from datetime import datetime
from pathlib import Path

import click

from fate_flow.cli.console.display import one_line, print_json, printable, tell
from fate_flow.cli.input.options import login_name
from fate_flow.cli.output.lists import clock_offset, print_keys_of_party
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.home_context import home_context
from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.invitation import LIFE_MS, PREFIX, SECRET_BYTES, Invitation, read_invitation
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.core.access.joining import SavedList
from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict, FlowError
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.text.phrases import counted
from fate_flow.peers.invitations import Invitations, InvitationState
from fate_flow.peers.joining import join as join_party
from fate_flow.peers.joining import why_nobody_joins
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.server.reach import Reach, reach
from fate_flow.services.context.ports import Context
from fate_flow.services.context.recording import record_act_in
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.use_cases.joining import described_parties, keys_of_parties, save_joined_party
from fate_flow.services.use_cases.revocations import Revocations
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore

_POLL_SECONDS = 0.5
_REACH_SECONDS = 30.0
_OPEN_SECONDS = 20.0         # the gateway looks for invitations every half second
_LONGEST_NAME = 100
_LONGEST_LINE = 4096

by_option = click.option(
    "--by", metavar="NAME", help="Who does this, for the record; by default the user of this shell."
)


@click.group("party")
def party_group() -> None:
    """Connect this party with others: one side invites, the other one joins.

    The commands work on the home of the server. Run them as its user; the server of an inviting party has to run.

    Example: fate_flow party invite --for 10000
    """


@party_group.command()
@conf_option
@click.option("--for", "invited", required=True, metavar="ID", help="The party that may join.")
@by_option
@click.option("--no-wait", is_flag=True, help="Do not wait until the other party has joined.")
def invite(conf: Path, invited: str, by: str | None, no_wait: bool) -> None:
    """Print an invitation for the operator of another party, and wait until that party has joined.

    The invitation is one line of text, for one use within an hour. Give it to the operator over a channel that nobody
    else reads: whoever has it can join in the place of that party, which the six words reveal afterwards. A newer
    invitation for the same party withdraws it. Ctrl-C ends the wait, and leaves the invitation valid.

    Example: fate_flow party invite --for 10000
    """
    settings, who = load_settings(conf), _who(by)
    address, keys = _address(settings), _own_keys(settings)
    if not address:
        raise BadSettings(
            "parties.dial: is true, so nobody can reach this server to join it: ask the other party for an invitation"
        )
    if check_party_id(invited, "--for") in (settings.party_id, "0"):
        raise BadRequest(f"--for: party {invited} is this party itself")
    keys.signed_list()                        # before somebody else finds out that there is none
    with home_context(settings) as context:
        _check_not_revoked(context, invited)
        until = now_on_the_wall() + LIFE_MS
        invitation = Invitation(
            address, settings.party_id, keys.root().key_id, invited, secrets.token_bytes(SECRET_BYTES), until
        )
        invitations = Invitations(settings.invitations_dir, now_on_the_wall)
        context.write(lambda tx: record_act_in(context, tx, f"party {invited} invited", who))
        invitations.add(invitation, who)
        _check_open(settings, invitations, invitation.id)
        click.echo(invitation.text())
        tell(f"Valid once, until {_time(until)}. The operator of party {invited} runs:\n"
             "  fate_flow party join\nand pastes the line.")
        if not no_wait:
            joined = _awaited(invitations, invitation)
            _check_saved(context, joined)
            tell(f"party {invited} has joined")
            _finish(settings, context, joined)


@party_group.command()
@conf_option
@click.argument("text", metavar="[TEXT]", default="-")
@by_option
def join(conf: Path, text: str, by: str | None) -> None:
    """Join the party that has made an invitation; show what both parties have agreed on.

    TEXT is the invitation. Without it, the command reads it from standard input, also over several lines: then no other
    user of the machine sees it in the list of processes, and no history of a shell keeps it. Both parties save the keys
    and the address of the other one; files are not exchanged. Nothing is saved if a check fails; the error says which
    one: port, name, clock, key or secret. Exit code 1: the parties have not joined, or do not reach each other in both
    directions.

    Example: fate_flow party join
    """
    settings, who = load_settings(conf), _who(by)
    address, keys = _address(settings), _own_keys(settings)
    invitation = _pasted() if text == "-" else read_invitation(text)
    with home_context(settings) as context:
        _check_not_revoked(context, invitation.inviter, invitation.root_id)
        saved = _saved_list(context, invitation.inviter)
        found = join_party(invitation, settings.party_id, address, keys.signed_list(), who, now_on_the_wall, saved)
        save_joined_party(context, found.party, found.keys, found.signed, found.root_id)
        tell(f"this party has joined party {invitation.inviter}")
        _finish(settings, context, found.party)


@party_group.command("list")
@conf_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, also with the keys that the parties had before.")
def list_parties(conf: Path, as_json: bool) -> None:
    """Show the parties whose keys are here: since when, their root keys, addresses and six words.

    `flow party list` shows the same of each party with a route, and asks it whether it answers.

    Example: fate_flow party list
    """
    with home_context(load_settings(conf)) as context:
        found, keys_of = described_parties(context), keys_of_parties(context)
    if as_json:
        print_json({party_id: {**one, "keys": keys_of.get(party_id, [])} for party_id, one in found.items()})
        return
    for party_id, keys in found.items():
        print_keys_of_party(party_id, keys)
    if not found:
        tell("no key list of another party is here")


@party_group.command()
@conf_option
@click.argument("party_id", metavar="PARTY")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, for all other parties of the jobs.")
@by_option
def revoke(conf: Path, party_id: str, reason: str, by: str | None) -> None:
    """Refuse another party from now on, and end the jobs in which it takes part.

    None of its keys counts any more; its open connections end within a second. Jobs of this party with it are stopped,
    its own jobs end here, and the initiators of others are asked to stop them. They end as canceled (party_revoked),
    and their message has the reason: all parties of the job that can be reached read it, but not a plain v1 one. May be
    repeated. To accept the party again, remove it first.

    Example: fate_flow party revoke 10000 --reason "contract 7 has ended"
    """
    other, why = check_party_id(party_id, "PARTY"), one_line(reason)
    if not why:
        raise click.BadParameter("is empty; give the reason", param_hint="--reason")
    with home_context(load_settings(conf)) as context:
        ended = Revocations(context).revoke(other, why, _who(by))
    click.echo(f"party {other} is revoked")
    for job_id in ended:
        click.echo(f"job {job_id}: its end was requested")


@party_group.command()
@conf_option
@click.argument("party_id", metavar="PARTY")
@by_option
def remove(conf: Path, party_id: str, by: str | None) -> None:
    """Forget another party, but for a mark that it was here.

    It can come back only by an invitation, or with a fingerprint that an operator has compared (flow key save). The
    command is refused while jobs with the party run; revoke it first.

    Example: fate_flow party remove 10000
    """
    other = check_party_id(party_id, "PARTY")
    with home_context(load_settings(conf)) as context:
        Revocations(context).remove(other, _who(by))
    click.echo(f"party {other} is removed")


# ---------------------------------------------------------------------- before


def _pasted() -> Invitation:
    """Read an invitation from standard input; mail and terminals break its line. Raises BadRequest."""
    tell("Paste the invitation:")
    text = ""
    while (line := sys.stdin.readline(_LONGEST_LINE)).strip() and len(text) < _LONGEST_LINE:
        text += line
        try:
            return read_invitation(text)
        except BadRequest:
            if not text.lstrip().startswith(PREFIX):
                raise
        if line == text:
            tell("A part of the text is missing, or was changed. Paste the rest of it, or an empty line:")
    if not text.strip():
        raise BadRequest("invitation: no text was pasted")
    return read_invitation(text)


def _address(settings: Settings) -> str:
    """Return the address of this party, for others; empty if it dials them. Raises BadSettings if other parties could
    not reach this one."""
    if settings.parties_dial:
        return ""
    if settings.parties_listen is None:
        raise BadSettings(
            "parties.listen: is not set, so there is no listener for other parties; for example: "
            "parties: {listen: {host: 10.0.0.1, port: 9390}}. A party without a port for others can join, but not "
            "invite: parties: {dial: true}"
        )
    if not settings.parties_address:
        raise BadSettings(
            "parties.address: is not set, and parties.listen.host is every address of this machine: say under which "
            "one other parties reach this server, such as https://fate.bank.example:9390"
        )
    return settings.parties_address


def _check_not_revoked(context: Context, party_id: str, root_id: str = "") -> None:
    """Raises Conflict if this party would refuse the keys of the other one afterwards."""
    keys = context.read(lambda tx: tx.party_keys(party_id))
    if keys is None or keys.state is KeyState.REMOVED:
        return
    if keys.state is KeyState.REVOKED:
        raise Conflict(f"party {party_id} was revoked here; to accept it again: fate_flow party remove {party_id}")
    if root_id and root_id not in keys.root_ids():
        raise Conflict(
            f"key: the invitation has another root key than the one of party {party_id} that is saved here "
            f"({fingerprint_of(keys.root_id)}), and no list here announces it; if that party has lost its root key, "
            f"join it after: fate_flow party remove {party_id}"
        )


def _saved_list(context: Context, party_id: str) -> SavedList | None:
    """Return the key list of a party that only a newer one can replace here; None if any can."""
    keys = context.read(lambda tx: tx.party_keys(party_id))
    return None if keys is None or keys.state is KeyState.REMOVED else SavedList.of(keys.number, keys.signed)


def _check_open(settings: Settings, invitations: Invitations, invitation_id: str) -> None:
    """Wait until the server lets others join. Raises FlowError, and withdraws the invitation, if it does not."""
    listen, deadline = settings.parties_listen, time.monotonic() + _OPEN_SECONDS
    assert listen is not None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104
    url = f"https://{f'[{host}]' if ':' in host else host}:{listen.port}"
    while why := why_nobody_joins(url, settings.party_id):
        if time.monotonic() > deadline:
            invitations.withdraw(invitation_id)
            raise FlowError(f"nobody could join: the server of this party at {url} {why}. Is it running?")
        time.sleep(_POLL_SECONDS)


def _awaited(invitations: Invitations, invitation: Invitation) -> JoinedParty:
    """Return the party that has joined. Raises FlowError once the invitation cannot be used any more."""
    while True:
        kept = invitations.outcome(invitation.id)
        if kept is not None and kept.joined is not None:
            return kept.joined
        if kept is None or kept.state is InvitationState.WITHDRAWN:
            raise FlowError("the invitation was withdrawn by a newer one for the same party")
        if kept.state is InvitationState.SPENT:
            raise FlowError(
                f"{counted(kept.tries, 'try', 'tries')} with a wrong secret: the invitation cannot be used any more"
            )
        if kept.state is InvitationState.EXPIRED:
            raise FlowError("the invitation was not used in time")
        time.sleep(_POLL_SECONDS)


def _check_saved(context: Context, party: JoinedParty) -> None:
    """Raises FlowError if the server failed between the use of an invitation and the end of its transaction."""
    saved = context.read(lambda tx: [one for one in tx.joined_parties() if one.party_id == party.party_id])
    if [one.phrase for one in saved] != [party.phrase]:
        raise FlowError(
            f"the invitation was used, but nothing was saved of party {party.party_id}: the server of this party "
            "failed or ended meanwhile. Invite the party again"
        )


# ---------------------------------------------------------------------- after


def _finish(settings: Settings, context: Context, party: JoinedParty) -> None:
    """Show what was agreed, and whether both parties reach each other. Raises FlowError."""
    keys = context.read(lambda tx: tx.party_keys(party.party_id))
    if keys is None:
        raise FlowError(f"no key list of party {party.party_id} is here any more")
    own = _own_keys(settings).root().key_id
    lines = [
        ("this party", f"{settings.party_id} {_where(settings.parties_address)}"),
        ("its root key", fingerprint_of(own)),
        ("other party", f"{party.party_id} {_where(party.address)}"),
        ("its root key", fingerprint_of(keys.root_id)),
        ("six words", party.phrase),
        ("its clock", clock_offset(party.clock_offset)),
    ]
    for name, value in lines:
        click.echo(printable(f"{name:<13}{value}"))
    tell("Compare the six words with the other operator by telephone: they are the same on both screens. If not, "
         f"somebody else has used the invitation: fate_flow party remove {party.party_id}")
    store = context.store
    assert isinstance(store, SqlStore), "home_context makes no other one"
    found = reach(settings, store, party.party_id, _REACH_SECONDS)
    for line in _directions(settings.party_id, party.party_id, found):
        click.echo(one_line(line))
    if not found.is_both_ways:
        raise SystemExit(1)


def _where(address: str) -> str:
    return f"at {address}" if address else "without a port: it keeps connections to the other party open"


def _directions(own: str, other: str, found: Reach) -> list[str]:
    tls = f" ({found.seen.version}, key {found.seen.key_id[:16]})" if found.seen else ""
    return [
        f"{own} -> {other}: " + (f"cannot reach {found.url}: {found.there}" if found.there else f"reaches it{tls}"),
        f"{other} -> {own}: " + (f"does not reach this party: {found.back}" if found.back else "reaches this party"),
    ]


# ---------------------------------------------------------------------- small things


def _own_keys(settings: Settings) -> OwnKeys:
    return OwnKeys(settings.party_id, settings.keys_dir, settings.private_key, now_on_the_wall)


def _who(by: str | None) -> str:
    who = one_line(by if by is not None else login_name())
    if not who or len(who) > _LONGEST_NAME:
        raise click.BadParameter(f"is not a name of 1 to {_LONGEST_NAME} characters", param_hint="--by")
    return who


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).isoformat(" ", "seconds")
