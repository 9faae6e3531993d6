"""fate_flow audit reconcile"""

from __future__ import annotations

from pathlib import Path
from typing import IO

import click

from fate_flow.cli.audit.options import reconcile_options
from fate_flow.cli.audit.record_reports import TROUBLE, print_findings
from fate_flow.cli.console.display import tell
from fate_flow.cli.server.audit import record_of_home
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.record.bundle import BadBundle
from fate_flow.peers.site_key import has_signed, raw_of_pem
from fate_flow.services.witnesses.comparing import reconcile_for_party


@click.command()
@conf_option
@reconcile_options
def reconcile(conf: Path, file: IO[str], party_id: str, is_json: bool) -> None:
    """Compare the log with another party with that party's log about this one.

    The other party writes FILE by `fate_flow audit prove -p PARTY -o FILE`. Its signatures are checked by the record
    keys of its key list, which is saved here. The head of its log is kept, so that it cannot show another past later.
    If somebody is accused, the people who want to know of contradictions are notified (docs/guides/notifications.md).

    Exit code 0: nobody is accused. 5: somebody is, and the line says by what. 2: the file does not have the whole log,
    or is not signed.

    Example: fate_flow audit reconcile from-10000.proof -p 10000
    """
    with record_of_home(conf) as (context, _):
        other = check_party_id(party_id)
        try:
            found = reconcile_for_party(context, other, file.read(), has_signed, raw_of_pem)
        except (BadBundle, UnicodeDecodeError, OSError) as error:
            tell(f"Error: {error}")
            raise SystemExit(TROUBLE) from error
    raise SystemExit(print_findings(found, is_json))
