"""fate_flow admin"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.console.display import print_json, print_table, tell
from fate_flow.cli.input.options import login_name
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.home_context import home_context
from fate_flow.core.model.errors import FlowError
from fate_flow.core.model.grammar import check_job_id, check_party_id, check_role
from fate_flow.core.model.job import EngineState, Job, JobKey
from fate_flow.core.model.resources import name_in_fate
from fate_flow.core.model.spec import Party
from fate_flow.core.text.phrases import counted
from fate_flow.server.periodic.record_keeping import record_keeper
from fate_flow.server.runtime import keep_of
from fate_flow.services.context.recording import record_act_in
from fate_flow.services.upkeep.retention import Piece, RetentionSweeper
from fate_flow.services.use_cases.admin import Held, Operator
from fate_flow.settings.reader import load_settings


@click.group()
def admin() -> None:
    """Show and release what jobs hold at this party, and remove old jobs.

    These commands work directly on the party's database and home, whether the server runs or not. Run them as the user
    of the server.

    Example: fate_flow admin held -c conf/service_conf.yaml
    """


@admin.command()
@conf_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def held(conf: Path, as_json: bool) -> None:
    """Show which jobs hold cores, memory and GPUs at this party.

    Example: fate_flow admin held -c conf/service_conf.yaml
    """
    with home_context(load_settings(conf)) as context:
        found = Operator(context).held()
    if as_json:
        print_json(_as_json(found))
        return
    has_gpus = any(engine.gpus for engine in found.engines)
    columns = (
        "job_id", "role", "party_id", "initiator", *(["engine"] if len(found.engines) > 1 else ()), "cores", "memory",
        *(["gpus"] if has_gpus else ()), "elastic_cores", "since", "status",
    )  # fmt: skip
    print_table(columns, ([_row(job, found)[column] for column in columns] for job in found.jobs))
    for engine in found.engines:
        of = f" of engine {name_in_fate(engine.name)}" if len(found.engines) > 1 else ""
        gpus = f" and {engine.gpus - engine.remaining_gpus} of {counted(engine.gpus, 'GPU')}" if engine.gpus else ""
        click.echo(
            f"{engine.cores - engine.remaining_cores} of {engine.cores} cores and "
            f"{engine.memory - engine.remaining_memory} of {engine.memory} MB of memory{gpus}{of} are reserved"
        )


@admin.command()
@conf_option
@click.argument("job_id", metavar="JOB")
@click.option("--role", required=True, help="The role of this party in the job: guest, host, arbiter or local.")
@click.option("--party-id", required=True, help="The party id of this party in the job; 0 for a local job.")
@click.option("--reason", required=True, metavar="TEXT", help="Reason; recorded with the job and in the logs.")
@click.option("--stop", "stops", is_flag=True, help="First end the workers of the job, if any are alive.")
def release(conf: Path, job_id: str, role: str, party_id: str, reason: str, stops: bool) -> None:
    """Release by force what a job holds at this party.

    A waiting job keeps its place in the queue. A started job ends here as failed, with the reason `released`, and this
    server reports that to the initiator. The command is refused while workers of the job are alive, unless --stop is
    given.

    \b
    Example: fate_flow admin release 20261121064812345678900042 --role host --party-id 10000 \\
                 --reason "its initiator is gone for good" -c conf/service_conf.yaml
    """
    if not reason.strip():
        raise click.BadParameter("is empty; give the reason for the release", param_hint="--reason")
    key = JobKey(check_job_id(job_id, "JOB"), Party(check_role(role, "--role"), check_party_id(party_id, "--party-id")))
    with home_context(load_settings(conf)) as context:
        claim = Operator(context, by=login_name()).release(key, " ".join(reason.split()), stops)
    gpus = f" and {counted(claim.gpus, 'GPU')}" if claim.gpus else ""
    click.echo(f"{key}: {counted(claim.cores, 'core')} and {claim.memory} MB of memory{gpus} were released")


@admin.command()
@conf_option
@click.option("--job", "job_id", metavar="JOB", help="Remove only this finished job and its logs, whatever its age.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
def clean(conf: Path, job_id: str | None, dry_run: bool) -> None:
    """Remove finished jobs, logs and tables whose retention time is over.

    Section `retention` of the configuration has the times. The server does the same by itself, every minute and a
    little at a time.

    Example: fate_flow admin clean --dry-run -c conf/service_conf.yaml
    """
    settings = load_settings(conf)
    with home_context(settings) as context:
        retention = RetentionSweeper(context, keep_of(settings), record_keeper(settings, context))
        if job_id is not None:
            pieces: Iterator[Piece] = iter(retention.whole_job(check_job_id(job_id, "--job")))
        else:
            pieces = (piece for some in _all_due(retention) for piece in some)
        if not dry_run:
            what = "removal of a job by an operator" if job_id else "removal of what is due by an operator"
            context.write(lambda tx: record_act_in(context, tx, what, login_name(), job_id=job_id or ""))
        left = [str(piece) for piece in pieces if not _cleaned(retention, piece, dry_run)]
    if left and job_id is not None:
        raise FlowError(f"could not be removed: {', '.join(left)}; see fate_flow_stat.log")


def _all_due(retention: RetentionSweeper) -> Iterator[list[Piece]]:
    yield from retention.old_logs()
    yield from retention.logs_beyond()
    yield from retention.old_artifacts()
    yield from retention.jobs_past_ttl()
    yield from retention.old_jobs()
    yield from retention.old_record()


def _cleaned(retention: RetentionSweeper, piece: Piece, dry_run: bool) -> bool:
    """Remove the piece, unless it is still in use. Return whether it was removed; True in a dry run."""
    if dry_run:
        click.echo(f"would remove {piece}")
        return True
    done = retention.do(piece)
    if done:
        click.echo(f"removed {piece}")
    else:
        tell(f"kept {piece}: it is still in use, or removing it failed (see fate_flow_stat.log)")
    return done


def _as_json(found: Held) -> dict[str, Any]:
    return {
        "engine": _engine(found.engines[0]) if found.engines else None,
        "engines": list(map(_engine, found.engines)),
        "held": [_row(job, found) for job in found.jobs],
    }


def _engine(state: EngineState) -> dict[str, Any]:
    return {
        "name": name_in_fate(state.name), "cores": state.cores, "memory": state.memory,
        "remaining_cores": state.remaining_cores, "remaining_memory": state.remaining_memory,
        "nodes": state.nodes, "gpus": state.gpus, "remaining_gpus": state.remaining_gpus,
    }  # fmt: skip


def _row(job: Job, found: Held) -> dict[str, Any]:
    taken = job.claim.taken_time
    elastic = [one for one in found.elastic if (one.task.job_id, one.task.party) == (job.job_id, job.party)]
    return {
        "job_id": job.job_id,
        "role": job.party.role,
        "party_id": job.party.party_id,
        "initiator": str(job.initiator),
        "cores": job.claim.cores,
        "memory": job.claim.memory,
        "gpus": job.claim.gpus,
        "engine": ", ".join(name_in_fate(engine) for engine in job.claim.by_engine()),
        "elastic_cores": sum(one.cores for one in elastic),
        "elastic_memory": sum(one.memory for one in elastic),
        "elastic_gpus": sum(one.gpus for one in elastic),
        "since": datetime.fromtimestamp(taken / 1000).isoformat(" ", "seconds") if taken else None,
        "status": job.status.value,
    }
