"""fate_flow audit"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from fate_flow.cli.audit.options import (
    check_asked,
    follow_options,
    prove_options,
    search_options,
    show_options,
    verify_options,
)
from fate_flow.cli.audit.proof_file import write_proof
from fate_flow.cli.audit.record_entries import print_entries, tell_unheard
from fate_flow.cli.audit.record_following import print_followed
from fate_flow.cli.audit.record_reports import TROUBLE, print_reports
from fate_flow.cli.console.display import tell
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.home_context import home_context
from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.errors import Conflict, FlowError, JobNotFound
from fate_flow.core.model.grammar import check_job_id, check_party_id
from fate_flow.core.record.shown import Followed, Position, ShownEntry
from fate_flow.peers.key_changes import RecordKey, witness_key
from fate_flow.peers.site_key import has_signed, raw_of_pem
from fate_flow.server.periodic.record_sealer import keys_of_record, log_signer
from fate_flow.server.reach import asking_others, held_elsewhere
from fate_flow.services.context.ports import Context
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.asking import HeldNow
from fate_flow.services.record.checkpoints import Damaged, LogSigner, hash_again, sign_heads
from fate_flow.services.record.following import followed, newest_position
from fate_flow.services.record.proving import ProofFile, file_of_job, file_of_party, keys_of_logs
from fate_flow.services.record.reading import Page, Wanted, entries_of_job
from fate_flow.services.record.reading import search as search_page
from fate_flow.services.witnesses.comparing import Comparing, Shown
from fate_flow.services.witnesses.witnessing import Witness
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction import Transaction


@click.group()
def audit() -> None:
    """Read, check and prove the record of this party.

    The commands read the party's own database, whether the server runs or not. Run them as the user of the server.
    docs/audit.md says what is recorded, and what each result means.

    Example: fate_flow audit show -j 202611262213200000001
    """


@audit.command()
@conf_option
@show_options
def show(conf: Path, job_id: str, form: str, ask: bool) -> None:
    """Show what is recorded about a job, in the order of writing: changes, messages, and who has asked for what.

    Times are those of this party's clock, in UTC; with --as fate-logs, in the time zone of this machine. With --ask
    each message has the times of both sides, and says whose word it is; a party that is not heard is named.

    \b
    Example: fate_flow audit show -j 202611262213200000001 --as svg > job.svg
             fate_flow audit show -j 202611262213200000001 --as fate-logs
    """
    with record_of_home(conf) as (context, settings):
        found = Shown(context.read(lambda tx: entries_of_job(tx, check_job_id(job_id))))
        if not found.entries:
            raise JobNotFound(f"nothing is recorded about job {job_id}: is record.switch true, and the id right?")
        if ask:
            comparing = Comparing(context, has_signed, raw_of_pem)
            found = comparing.shown(found.entries, job_id, asking_others(context, settings), time.monotonic)
        print_entries(found.entries, context.party_id, form, job_id)
        tell_unheard(found.unheard)


@audit.command()
@conf_option
@search_options
def search(
    conf: Path, party: str, person: str, kind: str, status: str, since: int, until: int, digest: str, form: str
) -> None:
    """Show the entries that have all of this. The whole record is read.

    \b
    Example: fate_flow audit search --status failed --since 2026-11-27
             fate_flow audit search --as lines > record.jsonl
    """
    with record_of_home(conf) as (context, _):
        other = check_party_id(party) if party else ""
        wanted = Wanted(other, person, kind, status, since, until, digest)
        print_entries(_found(context, wanted), context.party_id, form)


@audit.command()
@conf_option
@follow_options
def follow(conf: Path, form: str) -> None:
    """Print new entries as they get their places in logs, until Ctrl-C. Those of a server that stands still have none.

    Example: fate_flow audit follow --as lines | jq .entry
    """
    with record_of_home(conf) as (context, _):

        def look(position: Position | None) -> Followed:
            if position is None:
                return Followed((), context.read(newest_position))
            return context.read(lambda tx: followed(tx, position))

        print_followed(look, form, time.sleep)


@audit.command()
@conf_option
@verify_options
def verify(conf: Path, ask: bool, is_json: bool) -> None:
    """Read all logs, and say of each how far it can be relied on.

    With --ask, the other parties are asked first what they hold of the logs, with the keys and by the routes of the
    server: so an older state of the whole database is seen. One that does not answer is named, and changes no result;
    nor does what one says without a proof.

    Exit code 0: each log is anchored, since another party has cosigned it. 3: all logs are consistent in themselves,
    but at least one has no signature of another party: whoever has the keys could have written it anew. 4: a log is
    broken, at the entry that is named. 2: the record could not be read.

    Example: fate_flow audit verify
    """
    with record_of_home(conf) as (context, settings):
        keys = keys_of_record(context, settings)
        now = held_elsewhere(context, settings) if ask else HeldNow(0)
        found, has_evidence = context.read(
            lambda tx: (verify_all(tx, keys, now), bool(tx.evidence())), of_one_moment=True
        )
    code = print_reports(found, is_json, has_keys=keys is not None, has_evidence=has_evidence, unheard=now.unheard)
    raise SystemExit(code)


@audit.command()
@conf_option
def keys(conf: Path) -> None:
    """Print the keys of this party's logs, and the one by which it cosigns logs of others, as lines of a policy for
    `fate_flow verify`. A log whose newest signed head is by a key that was replaced has a line for each of the two.

    Give them to whoever is to check proofs of this party, over a channel that he trusts.

    Example: fate_flow audit keys > policy
    """
    with record_of_home(conf) as (context, settings):
        signer = _signer(context, settings)
        for log in context.read(lambda tx: tuple(keys_of_logs(tx, signer))):
            click.echo(f"log {log.text()}")
        if (witness := witness_key(settings.keys_dir, context.clock())) is not None:
            key = Witness.of(witness[0], witness[1].public.raw, witness[1].sign).key
            click.echo(f"witness {context.party_id} {key.text()}")


@audit.command()
@conf_option
@prove_options
def prove(conf: Path, job_id: str | None, party: str | None, output: Path, closed: bool) -> None:
    """Write entries with their proofs into a file, which a third person checks by `fate_flow verify`.

    Entries are proved up to the newest signed head of their log. If no other party has to be asked before, the heads
    are signed now; otherwise the server signs them, at the latest after a minute. The file has the texts of changes and
    acts, which may name tables and people; with --closed, and for another party, it has only the commitments to them.

    Example: fate_flow audit prove -j 202611262213200000001 -o job.proof
    """
    check_asked(job_id, party)
    with record_of_home(conf) as (context, settings):
        signer = _signer(context, settings)
        if not settings.recording.witnesses and context.read(lambda tx: _is_alone(context, tx)):
            hashed = hash_again(context, context.clock, lambda: True) or {}
            context.write(lambda tx: sign_heads(tx, signer, context.clock(), context.fresh_salt, hashed))

        def proved(tx: Transaction) -> ProofFile:
            return file_of_party(tx, check_party_id(party)) if party else file_of_job(tx, check_job_id(job_id), closed)

        found = context.read(proved, of_one_moment=True)
        write_proof(output, found.text, found.left, found.never)


def _is_alone(context: Context, tx: Transaction) -> bool:
    """Return whether no other party may hold a later state of a log, so that nobody has to be asked before signing."""
    reached = {*context.routes, *(one.party_id for one in tx.joined_parties())}
    return not any(one.state is KeyState.JOINED and one.party_id in reached for one in tx.all_party_keys())


@contextmanager
def record_of_home(conf: Path) -> Iterator[tuple[Context, Settings]]:
    """Yield the use cases of the party, and its settings. An error ends the command with TROUBLE."""
    try:
        settings = load_settings(conf)
        with home_context(settings) as context:
            yield context, settings
    except (FlowError, Damaged) as error:
        tell(f"Error: {error}")
        raise SystemExit(TROUBLE) from error


def _signer(context: Context, settings: Settings) -> LogSigner:
    found = log_signer(RecordKey(settings.keys_dir), context.clock())
    if found is None:
        raise Conflict(f"{settings.keys_dir}: this party has no record key: fate_flow key make -c CONF")
    return found


def _found(context: Context, wanted: Wanted) -> Iterator[ShownEntry]:
    for page in _pages(context, wanted):
        yield from page.entries


def _pages(context: Context, wanted: Wanted, after: int | None = 0) -> Iterator[Page]:
    while after is not None:
        page = context.read(lambda tx, after=after: search_page(tx, wanted, after))  # type: ignore[misc]
        yield page
        after = page.after
