"""flow test"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import one_line, show, tell
from fate_flow.cli.console.wording import reason_of, status_of, without_seconds
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.lists import unprefixed
from fate_flow.cli.output.unpacked import fetch_folder, folder_in
from fate_flow.core.model.status import JOB_END, JobStatus

LOG_FOLDER = "./logs/toy"         # the genuine client's folder
_ENDED = frozenset(status.value for status in JOB_END)


@click.group()
def test() -> None:
    """Test whether parties can run a job together.

    Example: flow test toy -gid 9999 -hid 10000
    """


@test.command()
@click.option("-gid", "--guest-party-id", required=True, help="Party id of the guest: this server's party.")
@click.option("-hid", "--host-party-id", required=True, help="Party id of the host.")
@click.option("--timeout", type=click.IntRange(1), default=300, help="Seconds to wait for the job; 300 by default.")
@click.option("--task-cores", type=click.IntRange(1), default=2, help="Cores at each party; 2 by default.")
@with_client
def toy(client: Client, guest_party_id: str, host_party_id: str, timeout: int, task_cores: int) -> None:
    """Run a job that adds up secret numbers of a guest and a host, and print the guest's log of it.

    Example: flow test toy -gid 9999 -hid 10000
    """
    answer = client.submit("job/submit", toy_job(guest_party_id, host_party_id, task_cores))
    if not answer.is_success:
        show(answer)
    job_id = str(answer.envelope.get("jobId"))
    status = _await_end(client, job_id, guest_party_id, timeout)
    _print_log(client, job_id, guest_party_id, status)
    if status != JobStatus.SUCCESS.value:
        raise SystemExit(1)


def toy_job(guest: str, host: str, task_cores: int) -> dict[str, Any]:
    """Return the body that submits the toy job; party ids are strings, as the genuine client sends them."""
    name = "secure_add_example_0"
    return {
        "job_dsl": {"components": {name: {"module": "SecureAddExample"}}},
        "job_runtime_conf": {
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": guest},
            "role": {"guest": [guest], "host": [host]},
            "job_parameters": {
                "common": {"task_cores": task_cores},
                "role": {"guest": {"0": {"user": ""}}, "host": {"0": {"user": ""}}},
            },
            "component_parameters": {
                "common": {name: {"partition": 4, "data_num": 1000}},
                "role": {"guest": {"0": {name: {"seed": 123}}}},
            },
        },
    }


def _await_end(client: Client, job_id: str, guest: str, timeout_seconds: int) -> str:
    """Return the job's final status, or the last one seen before the timeout. Print a line for each change."""
    status = said = ""
    for _ in range(timeout_seconds):
        answer = client.post("job/query", {"job_id": job_id, "role": "guest", "party_id": guest})
        if answer.is_success and answer.data:
            row = unprefixed(answer.data[0])
            status, before = str(row.get("status")), said
            why = reason_of(row) or row.get("wait_reason")
            said = f"toy test job {job_id} is {status_of(row)}" + (f": {one_line(why)}" if why else "")
            if without_seconds(said) != without_seconds(before):
                click.echo(said)
            if status in _ENDED:
                return status
        client.pause(1.0)
    click.echo("check job status timeout")
    return status


def _print_log(client: Client, job_id: str, guest: str, status: str) -> None:
    """Print the lines about the sum from the guest's log, or its errors."""
    folder = folder_in(LOG_FOLDER, f"job_{job_id}_log")
    answer = fetch_folder(client, "POST", "job/log/download", {"job_id": job_id, "output_path": LOG_FOLDER}, folder)
    if answer is not None:
        tell(f"get log failed: {answer.message}")
        return
    went_well = status == JobStatus.SUCCESS.value
    path = folder / "guest" / guest / ("INFO.log" if went_well else "ERROR.log")
    if not path.is_file():
        tell(f"{path}: the server did not send this log")
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if not went_well or "secure_add_guest" in line:
            click.echo(line.strip())
