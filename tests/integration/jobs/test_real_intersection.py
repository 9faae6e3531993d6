"""The main job over three real parties, with all that crosses between their servers recorded.

Nobody learns an id that it does not hold itself: no id and no hash of one is in any byte that crossed, and nothing in a
party's folders, databases and logs afterwards names an id that was not in its own table.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from tests.kit.servers.home_files import contents_below
from tests.kit.servers.party_servers import (
    BASE_PORT,
    GUEST,
    HOST,
    OTHER,
    READER,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    running_cluster,
    summing,
    table_named,
    taking_from,
)
from tests.kit.servers.recorder import Recorder

pytestmark = pytest.mark.timeout(900)

PARTIES = (GUEST, HOST, OTHER)
ID = re.compile(rb"person-[0-9a-f]{16}")
Table = dict[str, tuple[str, str]]


def make_tables() -> dict[str, Table]:
    """Ids that all three hold, that each two hold, and that one alone holds; words and amounts that stand out."""
    draw = random.Random(7)
    people = [f"person-{draw.getrandbits(64):016x}" for _ in range(700)]
    held_by = {person: draw.choice(["012", "01", "02", "12", "0", "1", "2"]) for person in people}
    return {
        party_id: {
            person: (f"word{draw.getrandbits(48):012x}", f"{draw.randrange(10**9, 10**10)}.{draw.randrange(100):02d}")
            for person in people
            if str(place) in held_by[person]
        }
        for place, party_id in enumerate(PARTIES)
    }


@dataclass(frozen=True)
class Run:
    """The job that was run, and what had gone between the servers when it was over."""

    cluster: Cluster
    tables: dict[str, Table]
    job_id: str
    crossed: bytes

    @property
    def common(self) -> set[str]:
        return set.intersection(*map(set, self.tables.values()))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    recorders = {party_id: Recorder() for party_id in PARTIES}
    overlays = {
        party_id: {"routes": {other: {"url": recorders[other].url} for other in PARTIES if other != party_id}}
        for party_id in PARTIES
    }
    try:
        root = tmp_path_factory.mktemp("recorded")
        with running_cluster(root, PARTIES, base_port=BASE_PORT + 20, overlays=overlays) as cluster:
            for party_id, recorder in recorders.items():
                recorder.pass_on_to(cluster.parties[party_id].url)
            tables = make_tables()
            for party_id, table in tables.items():
                cluster.parties[party_id].has_table("people", csv_text(["person", "word", "amount"], table))
            job_id = cluster.run(the_job())
            cluster.check_idle()
            yield Run(cluster, tables, job_id, b"\n".join(one.recorded() for one in recorders.values()))
    finally:
        for recorder in recorders.values():
            recorder.close()


def the_job() -> dict[str, object]:
    return job_of(
        {
            "reader_0": READER,
            "intersection_0": {
                "module": "Intersection", "input": taking_from("reader_0.raw"), "output": {"data": ["common"]}
            },
            "secure_sum_0": summing("intersection_0.common"),
        },
        {"guest": [GUEST], "host": [HOST, OTHER]},
        common={"reader_0": table_named("people"), "secure_sum_0": {"column": "amount"}},
    )


def disguises(secret: str) -> dict[str, bytes]:
    """The text and what it is easily recognised by."""
    plain = secret.encode()
    found = {"plain": plain, "base64": base64.b64encode(plain), "hex": plain.hex().encode()}
    for name in ("md5", "sha1", "sha256"):
        digest = hashlib.new(name, plain, usedforsecurity=False)
        found |= {
            f"{name}": digest.digest(),
            f"{name} hex": digest.hexdigest().encode(),
            f"{name} base64": base64.b64encode(digest.digest()),
        }
    return found


def party_cases(run: Run) -> Iterator[tuple[PartyServer, str, Table]]:
    for party_id, role in ((GUEST, "guest"), (HOST, "host"), (OTHER, "host")):
        yield run.cluster.parties[party_id], role, run.tables[party_id]


def test_every_party_has_its_own_rows_of_the_ids_that_all_hold(run: Run, tmp_path: Path) -> None:
    assert 0 < len(run.common) < min(map(len, run.tables.values()))
    for party, role, table in party_cases(run):
        assert party.metrics(run.job_id, "intersection_0")["intersect_count"] == str(len(run.common))
        place = ("-j", run.job_id, "-r", role, "-p", party.party_id, "-cpn", "intersection_0", "-o", tmp_path)
        party.flow("component", "output-data", *place)
        [path] = tmp_path.glob(f"*_{party.party_id}_output_data/common.csv")
        expected = {person: table[person] for person in run.common}
        assert path.read_text() == csv_text(["person", "word", "amount"], dict(sorted(expected.items())))


def test_the_secure_sum_is_the_plain_sum_over_all_parties(run: Run) -> None:
    total = sum(Decimal(table[person][1]) for table in run.tables.values() for person in run.common)
    for party, _, _ in party_cases(run):
        assert Decimal(party.metrics(run.job_id, "secure_sum_0")["total"]) == total


@pytest.mark.heavy
def test_no_id_and_no_value_crossed_in_any_disguise(run: Run) -> None:
    for topic in (b"psi.setup", b"psi.request", b"psi.answer", b"final.setup", b"final.request", b"sum.share"):
        assert b"topic=" + topic in run.crossed, "the recorders saw the exchange"
    assert len(run.crossed) > 33 * sum(map(len, run.tables.values())), "and its points"
    assert ID.findall(run.crossed) == []
    secrets = {person for table in run.tables.values() for person in table}
    secrets |= {value for table in run.tables.values() for row in table.values() for value in row}
    for party_id, table in run.tables.items():
        secrets.add(str(sum(Decimal(table[person][1]) for person in run.common)))
        assert party_id.encode() in run.crossed
    seen = [
        (secret, name) for secret in secrets for name, form in disguises(secret).items() if form in run.crossed
    ]
    assert seen == []


def test_a_party_keeps_nothing_about_an_id_that_it_does_not_hold(run: Run) -> None:
    for party, _, table in party_cases(run):
        own = {person.encode() for person in table}
        found = {person for content in contents_below(party.home).values() for person in ID.findall(content)}
        assert found
        assert found <= own


def test_a_host_is_told_of_the_final_intersection_alone(run: Run) -> None:
    """Its log, which it can read at leisure, counts that one and its own ids."""
    guest_and_host = len(set(run.tables[GUEST]) & set(run.tables[HOST]))
    lines = run.cluster.host.log(run.job_id, "host", HOST, "intersection_0", "INFO.log")
    described = [line.rsplit("]: ", 1)[1] for line in lines if "intersect" in line]
    assert f"intersect_count: {len(run.common)} of {len(run.tables[HOST])}" in described
    assert guest_and_host != len(run.common)
    assert not [text for text in described if str(guest_and_host) in re.findall(r"\d+", text)]
