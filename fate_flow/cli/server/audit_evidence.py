"""fate_flow audit evidence"""

from __future__ import annotations

from pathlib import Path

import click

from fate_flow.cli.audit.record_reports import ACCUSED
from fate_flow.cli.audit.record_times import time_of
from fate_flow.cli.console.display import one_line, print_json, tell
from fate_flow.cli.server.audit import record_of_home
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.services.witnesses.witnessing import sentence_of


@click.command()
@conf_option
@click.option("--json", "is_json", is_flag=True, help="Print JSON, with the signed checkpoints.")
def evidence(conf: Path, is_json: bool) -> None:
    """Show what this party, as a witness, has seen of logs of other parties that does not fit together.

    Exit code 0: nothing proves anything against anybody. 5: a party has signed two roots of one log for one size, which
    is proof. The checkpoints, which --json prints, are all that a third person needs besides the party's public key.

    Example: fate_flow audit evidence --json
    """
    with record_of_home(conf) as (context, _):
        found = context.read(lambda tx: tx.evidence())
    if is_json:
        print_json({"evidence": [
            {"party": one.party_id, "proof": one.is_proof, "log": one.origin, "size": one.size, "first": one.first,
             "second": one.second, "at": one.at}
            for one in found
        ]})  # fmt: skip
    for one in () if is_json else found:
        kind = "PROOF" if one.is_proof else "not shown"
        click.echo(one_line(f"{time_of(one.at)} {kind}: {sentence_of(one)}"))
    if not found and not is_json:
        tell("no evidence against any party")
    raise SystemExit(ACCUSED if any(one.is_proof for one in found) else 0)
