"""fate_flow audit reconcile"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from fate_flow.cli.console.display import one_line, print_json, tell
from fate_flow.cli.server.audit import TROUBLE, record_of_home
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import RECORD, KeyState, PartyKeys, read_key_list
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.record.bundle import BadBundle, read_bundle
from fate_flow.core.record.comparison import Finding, Outcome
from fate_flow.core.text.phrases import counted
from fate_flow.peers.site_key import has_signed, read_public_key
from fate_flow.services.record.reconciling import read_their_log
from fate_flow.services.record.reconciling import reconcile as compare_logs
from fate_flow.store.contract.transaction import Transaction

ACCUSED = 5


@click.command()
@conf_option
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-p", "--party", "party_id", required=True, metavar="PARTY", help="The party whose file it is.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON, with the outcome of each message.")
def reconcile(conf: Path, file: Path, party_id: str, is_json: bool) -> None:
    """Compare the log with another party with that party's log about this one.

    The other party writes FILE by `fate_flow audit prove -p PARTY -o FILE`. Its signatures are checked by the record
    keys of its key list, which is saved here. The head of its log is kept, so that it cannot show another past later.

    Exit code 0: nobody is accused. 5: somebody is, and the line says by what. 2: the file does not have the whole log,
    or is not signed.

    Example: fate_flow audit reconcile from-10000.proof -p 10000
    """
    with record_of_home(conf) as (context, _):
        other = check_party_id(party_id)

        def act(tx: Transaction) -> tuple[Finding, ...]:
            keys = _keys_of(tx, other)
            listed = [key for key in read_key_list(keys.signed.content).keys if key.use == RECORD]
            entries = read_bundle(file.read_text(encoding="utf-8"))
            root = fingerprint_of(keys.root_id)
            raw = [read_public_key(one.pem).raw for one in listed]
            theirs = read_their_log(other, context.party_id, root, raw, entries, has_signed)
            return compare_logs(tx, context.party_id, theirs, context.clock())

        try:
            found = context.write(act)
        except (BadBundle, UnicodeDecodeError, OSError) as error:
            tell(f"Error: {error}")
            raise SystemExit(TROUBLE) from error
    _print(found, is_json)
    raise SystemExit(ACCUSED if any(one.accused for one in found) else 0)


def _keys_of(tx: Transaction, party_id: str) -> PartyKeys:
    keys = tx.party_keys(party_id)
    if keys is None or keys.state is KeyState.REMOVED:
        raise NotFound(f"no key list of party {party_id} is saved here (fate_flow party join, flow key save)")
    return keys


def _print(found: tuple[Finding, ...], is_json: bool) -> None:
    counts = Counter(one.outcome for one in found)
    if is_json:
        listed = [
            {"outcome": one.outcome.value, "number": one.number, "accused": list(one.accused), "why": one.why,
             "ours": list(one.ours), "theirs": list(one.theirs)}
            for one in found
        ]  # fmt: skip
        print_json({"counts": {one.value: counts[one] for one in Outcome}, "messages": listed})
        return
    for one in found:
        if one.outcome is not Outcome.AGREED:
            accused = f"; accused: {', '.join(one.accused)}" if one.accused else ""
            places = f"here {_places(one.ours)}, there {_places(one.theirs)}"
            click.echo(one_line(f"{one.outcome.value}: message {one.number or '-'} ({places}): {one.why}{accused}"))
    tell(", ".join(f"{one.value}: {counts[one]}" for one in Outcome if counts[one]) or "no messages were recorded")
    if any(one.accused for one in found):
        accusations = counted(sum(bool(one.accused) for one in found), "accusation")
        tell(f"{accusations}: let the accused party answer with its log")


def _places(indexes: tuple[int, ...]) -> str:
    return ", ".join(f"#{one}" for one in indexes) or "nothing"
