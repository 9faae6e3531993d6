"""The server that all tests of this folder attack; after each of them it still serves honest ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.attacks.attacked_server import (
    HONEST,
    HOSTILE,
    OWN,
    AttackedServer,
    agrees,
    attacked_server,
    new_job_id,
    program,
)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    with attacked_server(tmp_path_factory.mktemp("attacked")) as found:
        yield found


@pytest.fixture
def attacked(running: AttackedServer) -> Iterator[AttackedServer]:
    """The server; after the test, a party and a client are answered, and nothing has failed inside."""
    yield running
    assert running.serves_honest_ones()
    assert running.server.tracebacks() == []


@pytest.fixture
def kept_connections(running: AttackedServer) -> Iterator[None]:
    """For attacks by what requests say: a handshake for each of them would cost more than the requests."""
    with running.kept_connections():
        yield


@pytest.fixture(scope="session")
def job_here(running: AttackedServer) -> Iterator[str]:
    """The id of a job of the honest party whose program runs here."""
    job_id = new_job_id()
    running.begin(HONEST, job_id, program(HONEST, {"host": [OWN]}))
    running.await_program(job_id)
    yield job_id
    running.end(HONEST, job_id)


@pytest.fixture(scope="session")
def own_job(running: AttackedServer) -> Iterator[str]:
    """The id of a job of this server with the honest party."""
    answer = running.server.submit(program(OWN, {"host": [HONEST]}))
    assert answer["retcode"] == 0, answer
    running.server.wait(answer["jobId"], "running")
    running.await_program(answer["jobId"])
    yield str(answer["jobId"])
    running.server.ask("job/stop", {"job_id": answer["jobId"]})


@pytest.fixture
def hostile_seat(attacked: AttackedServer) -> Iterator[str]:
    """The id of a running job of this server in which the honest and the hostile party have a seat."""
    submitted = attacked.server.submit(program(OWN, {"host": [HONEST, HOSTILE]}))
    assert submitted["retcode"] == 0, submitted
    job_id = str(submitted["jobId"])
    attacked.await_program(job_id)
    yield job_id
    attacked.peers[HOSTILE].answers = agrees
    attacked.server.post("job/stop", {"job_id": job_id})
    attacked.server.wait(job_id)
