"""fate_flow verify"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from fate_flow.cli.console.display import one_line, tell
from fate_flow.core.record.note import BadNote
from fate_flow.core.record.offline.bundle import (
    LONGEST_BUNDLE,
    BadBundle,
    Bundle,
    CheckedEntry,
    bundle_in,
    check_bundle,
    document_in,
)
from fate_flow.core.record.offline.evidence import FORMAT as EVIDENCE
from fate_flow.core.record.offline.evidence import TwoPasts, evidence_in
from fate_flow.core.record.offline.policy import NOBODY, Policy, read_policy
from fate_flow.core.text.phrases import counted
from fate_flow.peers.site_key import has_signed

TROUBLE, NOT_ANCHORED, BROKEN, ACCUSED = 2, 3, 4, 5


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy", "policy_file", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The keys that count, and the witnesses that have to have cosigned (C2SP tlog-policy).",
)  # fmt: skip
def verify(file: Path, policy_file: Path) -> None:
    """Check a file of `fate_flow audit prove` or `audit evidence` by the keys in a policy alone; no server and no
    configuration is read.

    Other parties cosign no own log; they hold it by a commitment in the log with them, which the file opens. That party
    alone can be a witness of a log with one other party, so there one member of each group is enough.

    Exit code 0: all entries are proved, and enough witnesses have cosigned. 3: all entries are proved by the signature
    of their own party; too few others vouch for some of them. 4: an entry is not proved, or evidence proves nothing.
    5: a party has signed two pasts of a log. 2: a file cannot be read.

    Example: fate_flow verify job.proof --policy policy
    """
    try:
        policy = read_policy(policy_file.read_text(encoding="utf-8"))
        if file.stat().st_size > LONGEST_BUNDLE:
            raise BadBundle(f"the file has more than {LONGEST_BUNDLE} bytes")
        found = document_in(file.read_text(encoding="utf-8"))
        listed = evidence_in(found) if found.get("format") == EVIDENCE else bundle_in(found)
    except (BadNote, BadBundle, OSError, UnicodeDecodeError) as error:
        tell(f"Error: {error}")
        raise SystemExit(TROUBLE) from error
    if not (listed.entries if isinstance(listed, Bundle) else listed):
        tell("Error: the file has no entries")
        raise SystemExit(TROUBLE)
    try:
        raise SystemExit(_checked(listed, policy) if isinstance(listed, Bundle) else _accused(listed, policy))
    except BadBundle as error:
        tell(f"not proved: {error}")
        raise SystemExit(BROKEN) from error


def _checked(bundle: Bundle, policy: Policy) -> int:
    """Raises BadBundle."""
    found = check_bundle(bundle, policy, has_signed)
    for one in found:
        text = f": {one.text}" if one.text else ""
        click.echo(one_line(f"{one.origin} #{one.index} {_said(one)}{text}"))
    is_anchored = policy.quorum != NOBODY and all(one.is_enough for one in found)
    tell(_summary(found, is_anchored))
    return 0 if is_anchored else NOT_ANCHORED


def _accused(listed: Sequence[TwoPasts], policy: Policy) -> int:
    """Evidence against logs of which the policy has no key is passed over. Raises BadBundle, also if none is left."""
    known = [one for one in listed if one.origin in policy.logs] or listed
    for first, second in [one.heads(policy, has_signed) for one in known]:
        which = "with two roots" if first.size == second.size else f"and {second.size} that begin otherwise"
        click.echo(one_line(f"PROOF: {first.origin}: signed are {counted(first.size, 'entry', 'entries')}, {which}"))
    tell(f"{counted(len(known), 'log has', 'logs have')} two pasts, signed by their own party")
    if left := len(listed) - len(known):
        tell(f"passed over: {counted(left, 'log')} of which the policy has no key")
    return ACCUSED


def _said(one: CheckedEntry) -> str:
    return " ".join(f"{key}={value}" for key, value in one.fields.items() if key != "v")


def _summary(found: Sequence[CheckedEntry], is_anchored: bool) -> str:
    count = counted(len(found), "entry", "entries")
    if is_anchored:
        names = sorted({name for one in found for name in one.cosigned})
        return f"{count} proved, and cosigned by {', '.join(names)}"
    alone = sum(not one.cosigned for one in found)
    if alone == len(found):
        return f"{count} proved by the signature of their own party alone: nobody else vouches for that past"
    few = sum(not one.is_enough for one in found)
    if not few:
        return f"{count} proved, and cosigned; the policy has no quorum that says by how many witnesses"
    return f"{count} proved; {few} of them are not cosigned by as many witnesses as the policy asks for"
