"""flow audit"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from fate_flow.cli.audit.options import (
    check_asked,
    check_compared,
    follow_options,
    prove_options,
    reconcile_options,
    search_options,
    show_options,
    verify_options,
)
from fate_flow.cli.audit.proof_file import write_proof
from fate_flow.cli.audit.record_entries import print_entries, tell_unheard
from fate_flow.cli.audit.record_following import print_followed
from fate_flow.cli.connection.client import CallFailed, Client, NoAnswer, data_of
from fate_flow.cli.console.display import tell
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.named_jobs import NamedJobs
from fate_flow.core.record.shown import Followed, Position, ShownEntry, read_followed, read_shown

T = TypeVar("T")

_AGAIN_SECONDS = 2.0         # after a request that no server could answer


@click.group()
def audit() -> None:
    """Read and check the record of this party, through its server. The key of the client needs the role audit.

    docs/audit.md says what is recorded, and what each result means. What a server says about its own record is its
    word: `fate_flow audit` reads the database itself, and `fate_flow verify` checks a file without any server.

    Example: flow audit show -j 202611262213200000001
    """


@audit.command()
@show_options
@with_client
def show(client: Client, job_id: str, form: str, ask: bool) -> None:
    """Show what is recorded about a job, in the order of writing: changes, messages, and who has asked for what.

    Times are those of this party's clock, in UTC; with --as fate-logs, in the time zone of this machine. With --ask
    each message has the times of both sides, and says whose word it is; a party that is not heard is named.

    \b
    Example: flow audit show -j 202611262213200000001 --as svg > job.svg
             flow audit show -j 202611262213200000001 --as fate-logs
    """
    answer = client.post("record/show", {"job_id": job_id, **({"ask": True} if ask else {})})
    data = data_of(answer)
    entries = _read(client, data, "entries", read_shown)
    print_entries(entries, str(data.get("party_id", "")), form, job_id, NamedJobs.of(answer))
    tell_unheard(_unheard(data))


@audit.command()
@search_options
@with_client
def search(client: Client, party: str, form: str, **wanted: str | int) -> None:
    """Show the entries that have all of this. The whole record is read, some entries with each request.

    \b
    Example: flow audit search --status failed --since 2026-11-27
             flow audit search --as lines > record.jsonl
    """
    given = {key: value for key, value in {**wanted, "party_id": party}.items() if value}
    known: dict[str, Any] = {}
    print_entries(_found(client, given, known), "", form, jobs=NamedJobs(known))


@audit.command()
@follow_options
@with_client
def follow(client: Client, form: str) -> None:
    """Print new entries as they get their places in logs, until Ctrl-C. If the server is stopped and started again, no
    entry is left out.

    Example: flow audit follow --as lines | jq .entry
    """

    known: dict[str, Any] = {}

    def look(position: Position | None) -> Followed:
        body = {} if position is None else {"position": {log: list(place) for log, place in position.items()}}
        ask = client.post if position is None else _Patient(client).post     # what never worked is an error
        answer = ask("record/follow", body)
        known.clear()                        # it may go on for months
        known.update(NamedJobs.of(answer).known)
        return _read_whole(client, data_of(answer), read_followed)

    print_followed(look, form, client.pause, NamedJobs(known))


@audit.command()
@prove_options
@with_client
def prove(client: Client, job_id: str | None, party: str | None, output: Path, closed: bool) -> None:
    """Write entries with their proofs into a file, which a third person checks by `fate_flow verify`.

    Entries are proved up to the newest signed head of their log: the server signs every minute, and sooner after a job.
    The file has the texts of changes and acts, which may name tables and people; with --closed, and for another party,
    it has only the commitments to them.

    Example: flow audit prove -j 202611262213200000001 -o job.proof
    """
    check_asked(job_id, party)
    body = {"job_id": job_id} if job_id else {"party_id": party}
    data = data_of(client.post("record/prove", {**body, "closed": closed}))
    text, left, never = _read_whole(
        client, data, lambda one: (str(one["file"]), int(one["left"]), int(one["never"]))
    )
    write_proof(output, text, left, never)


@audit.command()
@verify_options
@with_client
def verify(client: Client, ask: bool, is_json: bool) -> None:
    """Let the server read all logs, and say of each how far it can be relied on.

    With --ask, the server asks the other parties first what they hold of the logs: so an older state of the whole
    database is seen. One that does not answer is named, and changes no result; nor does what one says without a proof.

    Exit code 0: each log is anchored, since another party has cosigned it. 3: all logs are consistent in themselves,
    but at least one has no signature of another party. 4: a log is broken, at the entry that is named.

    Example: flow audit verify
    """
    # imported here, as below: it reads much of the server, and every other command would wait for that
    from fate_flow.cli.audit.record_reports import print_reports, read_report

    data = data_of(client.post("record/verify", {"ask": True} if ask else {}))
    found = list(_read(client, data, "logs", read_report))
    has_keys, has_evidence = data.get("has_keys") is True, data.get("has_evidence") is True
    unheard = _unheard(data)
    raise SystemExit(print_reports(found, is_json, has_keys=has_keys, has_evidence=has_evidence, unheard=unheard))


@audit.command()
@reconcile_options
@with_client
def reconcile(
    client: Client, file: IO[str] | None, party_id: str | None, job_id: str | None, since: int, is_json: bool
) -> None:
    """Compare the log with another party with that party's log about this one.

    The other party is asked for its log, or has written FILE by `fate_flow audit prove -p PARTY -o FILE`. With -j each
    party of the job is asked. The heads of their logs are kept.

    Exit code 0: nobody is accused. 5: somebody is, and the line says by what. 3: nobody is, but the log of a party of
    the job could not be compared.

    \b
    Example: flow audit reconcile -p 10000
             flow audit reconcile from-10000.proof -p 10000
    """
    from fate_flow.cli.audit.record_reports import print_findings, read_finding

    check_compared(file, party_id, job_id)
    asked = {"party_id": party_id, "job_id": job_id, "file": file.read() if file else None, "since": since}
    data = data_of(client.post("record/reconcile", {key: value for key, value in asked.items() if value}))
    unheard = _unheard(data)
    raise SystemExit(print_findings(list(_read(client, data, "messages", read_finding)), is_json, unheard))


def _unheard(data: Mapping[str, Any]) -> Mapping[str, str]:
    """Return which parties an answer says were not heard, and why."""
    return {str(one): str(why) for one, why in (data.get("unheard") or {}).items()}


def _found(client: Client, wanted: Mapping[str, Any], known: dict[str, Any]) -> Iterator[ShownEntry]:
    """Yield the entries; add to `known` what the server says of their jobs."""
    after: object = 0
    while after is not None:
        answer = client.post("record/search", {**wanted, "after": after})
        data = data_of(answer)
        known |= NamedJobs.of(answer).known
        yield from _read(client, data, "entries", read_shown)
        after = data.get("after")


class _Patient:
    """Asks again while no server answers, or while the server cannot."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def post(self, path: str, body: Any) -> ServerReply:
        said = ""
        while True:
            try:
                found = self._client.post(path, body)
                if found.status < 500:
                    return found
                why = found.message
            except NoAnswer as error:
                why = error.message
            if why != said:
                tell(f"{why}; asking again")
                said = why
            self._client.pause(_AGAIN_SECONDS)


def _read_whole(client: Client, data: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T]) -> T:
    """Return what the answer says. Raise CallFailed if it does not have that form."""
    try:
        return read(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CallFailed(f"{client.url} answers in a form that this release of flow does not know: {error}") from error


def _read(client: Client, data: Mapping[str, Any], key: str, read: Callable[[Mapping[str, Any]], T]) -> Iterable[T]:
    """Return what the answer lists under this key. Raise CallFailed if it does not have that form."""
    try:
        return [read(one) for one in data[key]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CallFailed(f"{client.url} answers in a form that this release of flow does not know: {key}") from error
