"""fate_flow audit"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_json, print_table, tell
from fate_flow.cli.output.record_entries import as_document, as_mermaid, fields_of, place_of, text_of, time_of
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.home_context import home_context
from fate_flow.core.model.errors import BadRequest, Conflict, FlowError, JobNotFound
from fate_flow.core.model.grammar import check_job_id, check_party_id
from fate_flow.core.record.bundle import ProvedEntry, bundle_text
from fate_flow.core.record.entry import log_with, other_party
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.text.phrases import counted
from fate_flow.peers.key_changes import witness_key
from fate_flow.peers.site_key import has_signed
from fate_flow.server.periodic.record_sealer import log_signer
from fate_flow.services.context.ports import Context
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.checkpoints import Damaged, LogSigner, hash_again, origin_of, sign_heads
from fate_flow.services.record.proving import prove as proofs_of
from fate_flow.services.record.verifying import Keys, LogReport, State
from fate_flow.services.witnesses.cosigning import witness_keys
from fate_flow.services.witnesses.witnessing import Witness
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction import Transaction

TROUBLE, NOT_ANCHORED, BROKEN = 2, 3, 4
_PAGE, _LOOK_SECONDS = 1_000, 0.5

job_option = click.option("-j", "--job-id", required=True, metavar="JOB", help="The id of the job.")


@click.group()
def audit() -> None:
    """Read, check and prove the record of this party.

    The commands read the party's own database, whether the server runs or not. Run them as the user of the server.
    docs/audit.md says what is recorded, and what each result means.

    Example: fate_flow audit show -j 202611262213200000001
    """


@audit.command()
@conf_option
@job_option
@click.option("--as", "form", type=click.Choice(["table", "json", "mermaid"]), default="table", show_default=True)
def show(conf: Path, job_id: str, form: str) -> None:
    """Show what is recorded about a job, in the order of writing: changes, messages, and who has asked for what.

    Times are those of this party's clock, in UTC.

    Example: fate_flow audit show -j 202611262213200000001 --as mermaid
    """
    with record_of_home(conf) as (context, _):
        entries = context.read(lambda tx: tx.record_of_job(check_job_id(job_id)))
        if not entries:
            raise JobNotFound(f"nothing is recorded about job {job_id}: is record.switch true, and the id right?")
        _print(context, entries, form)


@audit.command()
@conf_option
@click.option("-p", "--party", metavar="PARTY", help="Only what is in the log with this party.")
@click.option("--person", metavar="NAME", help="Only what this person has asked for.")
@click.option("--kind", metavar="KIND", help="Only entries of this kind: status, act, decision, sent, ...")
@click.option("--status", metavar="STATUS", help="Only changes to this status.")
@click.option("--since", metavar="TIME", help="Only from this time on, in UTC: 2026-11-27 or 2026-11-27T08:30:00.")
@click.option("--digest", metavar="DIGEST", help="Only entries with this commitment or message number.")
@click.option("--as", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def search(
    conf: Path, party: str | None, person: str | None, kind: str | None, status: str | None, since: str | None,
    digest: str | None, form: str,
) -> None:  # fmt: skip
    """Show the entries that have all of this. The whole record is read.

    Example: fate_flow audit search --status failed --since 2026-11-27
    """
    begin = _time_in(since)
    with record_of_home(conf) as (context, _):
        other = check_party_id(party) if party else ""

        def is_wanted(one: StoredEntry) -> bool:
            said = fields_of(one)
            return (
                (not other or other_party(one.log) == other)
                and (not kind or said["kind"] == kind)
                and (not status or said.get("new") == status)
                and one.at >= begin
                and (not person or ("who" in said and _name_of(context)(str(said["who"])) == person))
                and (not digest or digest in said.values())
            )

        _print(context, [one for one in _all(context) if is_wanted(one)], form)


@audit.command()
@conf_option
def follow(conf: Path) -> None:
    """Print new entries as they are written, as JSON lines, until Ctrl-C.

    Example: fate_flow audit follow | jq .entry
    """
    with record_of_home(conf) as (context, _):
        newest = max((one.id for one in _all(context)), default=0)
        tell("following the record; Ctrl-C ends")
        while True:
            for one in _all(context, newest):
                newest = one.id
                click.echo(_json_line(as_document(one, _name_of(context))))
            time.sleep(_LOOK_SECONDS)


@audit.command()
@conf_option
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def verify(conf: Path, is_json: bool) -> None:
    """Read all logs, and say of each how far it can be relied on.

    Exit code 0: each log is anchored, since another party has cosigned it. 3: all logs are consistent in themselves,
    but at least one has no signature of another party: whoever has the keys could have written it anew. 4: a log is
    broken, at the entry that is named. 2: the record could not be read.

    Example: fate_flow audit verify
    """
    with record_of_home(conf) as (context, settings):
        keys = _keys(context, settings)
        if keys is None:
            tell("this party has no record key: no signature is checked (fate_flow key make)")
        found, has_evidence = context.read(lambda tx: (verify_all(tx, keys), bool(tx.evidence())))
    if is_json:
        print_json({"logs": [_report(one) for one in found]})
    for one in () if is_json else found:
        click.echo(one_line(_sentence_of(one)))
    if not found:
        tell("nothing is recorded here (record.switch)")
    if has_evidence:
        tell("logs of other parties do not fit together: fate_flow audit evidence")
    raise SystemExit(_exit_code(found))


@audit.command()
@conf_option
def keys(conf: Path) -> None:
    """Print the keys of this party's logs, and the one by which it cosigns logs of others, as lines of a policy for
    `fate_flow verify`.

    Give them to whoever is to check proofs of this party, over a channel that he trusts.

    Example: fate_flow audit keys > policy
    """
    with record_of_home(conf) as (context, settings):
        signer = _signer(context, settings)
        for head in context.read(lambda tx: tx.record_heads()):
            for epoch in context.read(lambda tx, head=head: tx.record_epochs(head.log)):  # type: ignore[misc]
                click.echo(f"log {signer.key_of(origin_of(signer.root, head.log, epoch)).text()}")
        if (witness := witness_key(settings.keys_dir, context.clock())) is not None:
            key = Witness.of(witness[0], witness[1].public.raw, witness[1].sign).key
            click.echo(f"witness {context.party_id} {key.text()}")


@audit.command()
@conf_option
@click.option("-j", "--job-id", metavar="JOB", help="The entries about this job.")
@click.option("-p", "--party", metavar="PARTY", help="The whole log with this party, for `audit reconcile` there.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option("--closed", is_flag=True, help="Leave out the texts that entries commit to.")
def prove(conf: Path, job_id: str | None, party: str | None, output: Path, closed: bool) -> None:
    """Write entries with their proofs into a file, which a third person checks by `fate_flow verify`.

    The heads are signed first. The file has the texts of changes and acts, which may name tables and people; with
    --closed, and for another party, it has only the commitments to them.

    Example: fate_flow audit prove -j 202611262213200000001 -o job.proof
    """
    if (job_id is None) == (party is None):
        raise click.UsageError("one of --job-id and --party is needed")
    with record_of_home(conf) as (context, settings):
        signer = _signer(context, settings)

        hashed = hash_again(context, context.clock, lambda: True) or {}

        def act(tx: Transaction) -> str:
            sign_heads(tx, signer, context.clock(), context.fresh_salt, hashed)
            entries = _with_party(tx, check_party_id(party)) if party else tx.record_of_job(check_job_id(job_id))
            if not entries:
                raise JobNotFound(f"nothing is recorded about {f'party {party}' if party else f'job {job_id}'}")
            is_closed = closed or bool(party)
            return bundle_text([_closed(one) if is_closed else one for one in proofs_of(tx, entries)])

        text = context.write(act)
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadRequest(f"--output: {output} cannot be written: {error.strerror}") from error
    tell(f"written: {output}")


def _with_party(tx: Transaction, party_id: str) -> tuple[StoredEntry, ...]:
    head = tx.record_head(log_with(party_id))
    return tx.sealed_entries(head.log, head.epoch, 0, head.size)


def _closed(one: ProvedEntry) -> ProvedEntry:
    return replace(one, salt="", text="")


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
    found = log_signer(settings.keys_dir, context.clock)
    if found is None:
        raise Conflict(f"{settings.keys_dir}: this party has no record key: fate_flow key make -c CONF")
    return found


def _keys(context: Context, settings: Settings) -> Keys | None:
    """Return the public keys of this party's own logs, those of replaced keys included."""
    signer = log_signer(settings.keys_dir, context.clock)
    if signer is None:
        return None
    witnesses = context.read(witness_keys)
    found = tuple((party_id, key) for party_id, listed in sorted(witnesses.items()) for key in listed)
    return Keys(signer.root, (signer.key, *signer.earlier), found, has_signed)


def _all(context: Context, after: int = 0) -> Iterator[StoredEntry]:
    while True:
        page = context.read(lambda tx, after=after: tx.record_after(after, _PAGE))  # type: ignore[misc]
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _name_of(context: Context) -> Callable[[str], str]:
    return lambda person_id: context.read(lambda tx: tx.person_name(person_id))


def _print(context: Context, entries: Sequence[StoredEntry], form: str) -> None:
    name_of = _name_of(context)
    if form == "json":
        print_json({"entries": [as_document(one, name_of) for one in entries]})
    elif form == "mermaid":
        for line in as_mermaid(entries, context.party_id, name_of):
            click.echo(line)
    else:
        rows = [(time_of(one.at), place_of(one), text_of(one, name_of)) for one in entries]
        print_table(("time (UTC)", "log", "what"), rows)


def _json_line(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False)


def _time_in(text: str | None) -> int:
    if text is None:
        return 0
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time such as 2026-11-27", param_hint="--since") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _sentence_of(one: LogReport) -> str:
    name = f"{one.log} (epoch {one.epoch}), {counted(one.size, 'entry', 'entries')}"
    signed = f"signed by this party up to {one.signed_to}"
    if one.state is State.BROKEN:
        return f"{name}: BROKEN at entry {one.broken_at}: {one.why}; {signed}"
    if one.state is State.ANCHORED:
        when = datetime.fromtimestamp(one.anchored_at, UTC).isoformat(" ", "seconds")
        return f"{name}: anchored up to {one.anchored_to} by party {one.anchored_by} at {when}; {signed}"
    return f"{name}: consistent in itself; {signed}, by no other party"


def _report(one: LogReport) -> dict[str, Any]:
    return {
        "log": one.log, "epoch": one.epoch, "size": one.size, "state": one.state.value,
        "broken_at": one.broken_at if one.state is State.BROKEN else None, "why": one.why, "signed_to": one.signed_to,
        "anchored_to": one.anchored_to, "anchored_by": one.anchored_by, "anchored_at": one.anchored_at or None,
    }  # fmt: skip


def _exit_code(found: list[LogReport]) -> int:
    if any(one.state is State.BROKEN for one in found):
        return BROKEN
    return 0 if found and all(one.state is State.ANCHORED for one in found) else NOT_ANCHORED
