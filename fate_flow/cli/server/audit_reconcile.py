"""fate_flow audit reconcile"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import IO

import click

from fate_flow.cli.audit.options import check_compared, reconcile_options
from fate_flow.cli.audit.record_reports import TROUBLE, print_findings
from fate_flow.cli.console.display import tell
from fate_flow.cli.server.audit import record_of_home
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.core.model.grammar import check_job_id, check_party_id
from fate_flow.core.record.comparison import About
from fate_flow.core.record.offline.bundle import BadBundle
from fate_flow.peers.site_key import has_signed, raw_of_pem
from fate_flow.server.reach import asking_others
from fate_flow.services.witnesses.comparing import Comparing


@click.command()
@conf_option
@reconcile_options
def reconcile(
    conf: Path, file: IO[str] | None, party_id: str | None, job_id: str | None, since: int, is_json: bool
) -> None:
    """Compare the log with another party with that party's log about this one.

    The other party is asked for its log, with the keys and by the route of the server, or has written FILE by
    `fate_flow audit prove -p PARTY -o FILE`. With -j each party of the job is asked. The signatures are checked by the
    record keys of the key lists that are saved here. The heads of the logs are kept, so that no party can show another
    past later. If somebody is accused, the people who want to know of contradictions are notified
    (docs/guides/notifications.md).

    Exit code 0: nobody is accused. 5: somebody is, and the line says by what. 3: nobody is, but the log of a party of
    the job could not be compared. 2: the log of the party is not whole, is not signed, or is not handed out.

    \b
    Example: fate_flow audit reconcile -p 10000
             fate_flow audit reconcile from-10000.proof -p 10000
    """
    check_compared(file, party_id, job_id)
    with record_of_home(conf) as (context, settings):
        comparing, unheard = Comparing(context, has_signed, raw_of_pem), dict[str, str]()
        try:
            if job_id is not None:
                about = About(check_job_id(job_id), since)
                job = comparing.of_job(about, asking_others(context, settings), monotonic)
                found, unheard = job.findings, dict(job.unheard)
            elif file is not None:
                found = comparing.with_file(check_party_id(party_id), file.read(), About(since=since))
            else:
                ask, other = asking_others(context, settings), check_party_id(party_id)
                found = comparing.by_asking(other, ask, monotonic, About(since=since))
        except (BadBundle, UnicodeDecodeError, OSError) as error:
            tell(f"Error: {error}")
            raise SystemExit(TROUBLE) from error
    raise SystemExit(print_findings(found, is_json, unheard))
