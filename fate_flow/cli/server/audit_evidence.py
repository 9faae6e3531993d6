"""fate_flow audit evidence"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from fate_flow.cli.audit.proof_file import write_file
from fate_flow.cli.audit.record_reports import ACCUSED
from fate_flow.cli.audit.record_times import time_of
from fate_flow.cli.console.display import one_line, print_json, tell
from fate_flow.cli.server.audit import record_of_home
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.core.model.errors import NotFound
from fate_flow.core.record.offline.evidence import Evidence, evidence_text, shown_texts
from fate_flow.services.witnesses.witnessing import sentence_of


@click.command()
@conf_option
@click.option("--json", "is_json", is_flag=True, help="Print JSON, with the signed checkpoints.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the proofs into a file.")
def evidence(conf: Path, is_json: bool, output: Path | None) -> None:
    """Show what this party, as a witness, has seen of logs of other parties that does not fit together.

    Exit code 0: nothing proves anything against anybody. 5: a party has signed two pasts of one log, which is proof. A
    third person checks the file by `fate_flow verify` and the keys of that party's log.

    Example: fate_flow audit evidence -o evidence.json
    """
    with record_of_home(conf) as (context, _):
        found = context.read(lambda tx: tx.evidence())
        if output is not None:
            _write(output, found)
    if is_json:
        print_json({"evidence": [
            {"party": one.party_id, "proof": one.is_proof, "log": one.origin, "size": one.size, "first": one.first,
             "second": one.second, "shown": shown_texts(one), "at": one.at}
            for one in found
        ]})  # fmt: skip
    for one in () if is_json else found:
        kind = "PROOF" if one.is_proof else "not shown"
        click.echo(one_line(f"{time_of(one.at)} {kind}: {sentence_of(one)}"))
    if not found and not is_json:
        tell("no evidence against any party")
    raise SystemExit(ACCUSED if any(one.is_proof for one in found) else 0)


def _write(output: Path, listed: Sequence[Evidence]) -> None:
    """Write what is proof of it. Raises NotFound if nothing is; BadRequest."""
    if not any(one.is_proof for one in listed):
        raise NotFound("nothing that this party has seen is proof, so no file is written")
    write_file(output, evidence_text(listed))
