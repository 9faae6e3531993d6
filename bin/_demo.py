"""The demo: three organisations count their common customers and sum their spending, and none shows its rows.

A retailer (guest 9999), a bank (host 10000) and a telecom (host 10001) each upload a table of customers. One job runs
Reader -> Intersection -> SecureSum over the three servers, which know each other by keys and speak mutual TLS. The
script compares the result with the plain answer, which only the script can compute, since it made the tables.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT / ".cache" / "demo"
CLUSTER = ROOT / "cluster"
SEED = 20_260_101
GUEST, BANK, TELECOM = "9999", "10000", "10001"
PARTIES = {
    GUEST: ("guest", "retailer", "purchases", ["age_band", "purchases"]),
    BANK: ("host", "bank", "fees", ["segment", "fees"]),
    TELECOM: ("host", "telecom", "monthly_bill", ["tariff", "monthly_bill"]),
}
ROWS = {GUEST: 4_000, BANK: 3_500, TELECOM: 3_000}
JOB_SECONDS = 240


def main() -> int:
    options = argparse.ArgumentParser(prog="bin/demo", description=__doc__.splitlines()[0])
    options.add_argument("--keep", action="store_true", help="leave the servers running afterwards")
    keep = options.parse_args().keep
    began = time.monotonic()
    _run("cluster", "down", "--dir", str(CLUSTER)) if (CLUSTER / "cluster.json").exists() else None
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir(parents=True)
    with _cluster(keep) as servers:
        tables = make_tables(ROOT / "data")
        upload(servers, tables)
        job_id = submit(servers)
        is_right = report(servers, job_id, tables)
        print(f"\ntook {time.monotonic() - began:.1f} s")
        if keep:
            how_to_go_on(servers, job_id)
    if not is_right:
        print("demo: FAILED")
        return 1
    print("demo: success")
    return 0


# ------------------------------------------------------------------ servers


@contextmanager
def _cluster(keep: bool) -> Iterator[dict[str, dict[str, Any]]]:
    print("starting three party servers ...")
    arguments = [part for party_id in PARTIES for part in ("--party", party_id)]
    try:
        document = json.loads(_run("cluster", "up", "--dir", str(CLUSTER), *arguments))
        servers = {party["party_id"]: party for party in document["parties"]}
        for party_id, party in servers.items():
            role, name, *_ = PARTIES[party_id]
            print(f"  {role:<5} {party_id:>5}  {name:<9} {party['url']}  for other parties: {party['gateway']}")
        print("  each party has keys of its own, and the other parties' key lists: their servers speak mutual TLS 1.3")
        yield servers
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            _run("cluster", "down", "--dir", str(CLUSTER))


def _run(command: str, *arguments: str) -> str:
    """Run a command of bin/ and return its stdout; its stderr goes to ours."""
    program = [str(CHECKOUT / "bin" / command), *arguments]
    done = subprocess.run(program, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bin/{command} {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def flow(server: dict[str, Any], *arguments: str, is_quiet: bool = False) -> dict[str, Any]:
    """Run a `flow` command at a party and return its answer; show its stderr unless `is_quiet`."""
    program = [str(Path(sys.executable).with_name("flow")), "--server", server["url"], *arguments]
    stderr = subprocess.DEVNULL if is_quiet else None
    done = subprocess.run(
        program, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"flow {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}")
    return json.loads(done.stdout) if done.stdout.strip() else {}


# ------------------------------------------------------------------ data


def make_tables(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Write a table of customers for each party as a CSV file; return the rows by customer number."""
    draw = random.Random(SEED)
    folder.mkdir()
    people = [f"C{number:07d}" for number in draw.sample(range(1, 10_000_000), 8_000)]
    tables = {}
    for party_id, (_, name, _, columns) in PARTIES.items():
        chosen = draw.sample(people, ROWS[party_id])
        tables[party_id] = {person: _row(draw, columns[0]) for person in chosen}
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["customer", *columns])
            writer.writerows([person, *row] for person, row in tables[party_id].items())
    return tables


def _row(draw: random.Random, kind: str) -> list[str]:
    parts = {
        "age_band": ["18-29", "30-44", "45-59", "60+"],
        "segment": ["private", "premium", "business"],
        "tariff": ["prepaid", "S", "M", "L"],
    }
    return [draw.choice(parts[kind]), f"{draw.lognormvariate(4, 0.8):.2f}"]


def upload(servers: dict[str, dict[str, Any]], tables: dict[str, dict[str, list[str]]]) -> None:
    print("uploading a table at each party ...")
    for party_id, (_, name, _, _) in PARTIES.items():
        conf = {
            "file": str(ROOT / "data" / f"{name}.csv"), "head": 1, "partition": 4, "id_delimiter": ",",
            "namespace": "demo", "table_name": name,
        }  # fmt: skip
        path = _write(f"upload_{name}.json", conf)
        answer = flow(servers[party_id], "data", "upload", "-c", str(path))
        flow(servers[party_id], "job", "watch", "-j", answer["jobId"], is_quiet=True)
        info = flow(servers[party_id], "table", "info", "-n", "demo", "-t", name)["data"]
        print(f"  {name:<9} {info['count']} rows at party {party_id}")
        if info["count"] != len(tables[party_id]):
            raise SystemExit(f"party {party_id} has {info['count']} rows, {len(tables[party_id])} were sent")


# ------------------------------------------------------------------ the job


DSL = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["raw"]}},
        "intersection_0": {
            "module": "Intersection",
            "input": {"data": {"data": ["reader_0.raw"]}},
            "output": {"data": ["common"]},
        },
        "secure_sum_0": {
            "module": "SecureSum",
            "input": {"data": {"data": ["intersection_0.common"]}},
            "output": {"data": ["total"]},
        },
    }
}


def conf() -> dict[str, Any]:
    def of(party_id: str) -> dict[str, Any]:
        _, name, column, _ = PARTIES[party_id]
        return {"reader_0": {"table": {"namespace": "demo", "name": name}}, "secure_sum_0": {"column": column}}

    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(GUEST)},
        "role": {"guest": [int(GUEST)], "host": [int(BANK), int(TELECOM)]},
        "job_parameters": {"common": {"task_cores": 2}},
        "component_parameters": {
            "role": {"guest": {"0": of(GUEST)}, "host": {"0": of(BANK), "1": of(TELECOM)}}
        },
    }


def submit(servers: dict[str, dict[str, Any]]) -> str:
    conf_path, dsl_path = _write("conf.json", conf()), _write("dsl.json", DSL)
    print(f"\n$ flow job submit -c {_short(conf_path)} -d {_short(dsl_path)} --watch")
    answer = flow(servers[GUEST], "job", "submit", "-c", str(conf_path), "-d", str(dsl_path), "--watch")
    return str(answer["jobId"])


def _write(name: str, content: dict[str, Any]) -> Path:
    path = ROOT / name
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    return path


def _short(path: Path) -> str:
    """Return the path for a command line: relative if the current folder is the checkout, else absolute."""
    return shlex.quote(str(path.relative_to(CHECKOUT) if Path.cwd() == CHECKOUT else path))


# ------------------------------------------------------------------ the result


def report(servers: dict[str, dict[str, Any]], job_id: str, tables: dict[str, dict[str, list[str]]]) -> bool:
    """Print the result at each party; return whether it is the plain answer."""
    common = set.intersection(*(set(table) for table in tables.values()))
    total = sum(Decimal(tables[party_id][person][1]) for party_id in tables for person in common)
    print(f"\njob {job_id}: the result at each party")
    is_right = True
    for party_id, (role, name, _, _) in PARTIES.items():
        found = _numbers(servers[party_id], job_id, role, party_id)
        print(
            f"  {role:<5} {party_id:>5} {name:<9} {tables_text(tables[party_id])}"
            f" -> {found['intersect_count']} in common -> total {found['total']}"
        )
        is_right = is_right and int(found["intersect_count"]) == len(common) and Decimal(found["total"]) == total
    print(f"  plain answer, which no party could compute: {len(common)} in common, total {total}")
    print("\nlogs")
    for party_id, party in servers.items():
        print(f"  party {party_id:>5}  {_short(Path(party['home']) / 'logs' / job_id)}/")
    return is_right


def tables_text(table: dict[str, list[str]]) -> str:
    return f"{len(table)} rows"


def _numbers(server: dict[str, Any], job_id: str, role: str, party_id: str) -> dict[str, str]:
    place = ("-j", job_id, "-r", role, "-p", party_id)
    found: dict[str, str] = {}
    for component in ("intersection_0", "secure_sum_0"):
        data = flow(server, "component", "metric-all", *place, "-cpn", component)["data"]
        for names in data.values():
            for metric in names.values():
                found.update({key: str(value) for key, value in metric["data"]})
    return found


def how_to_go_on(servers: dict[str, dict[str, Any]], job_id: str) -> None:
    url = servers[GUEST]["url"]
    print("\nthe servers are still running; use them and stop them with")
    print(f"  . {_short(CHECKOUT / '.venv/bin/activate')} && export FATE_FLOW_SERVER={url}")
    print(f"  flow job query -j {job_id}")
    print(f"  flow job explain -j {job_id}")
    for verb in ("status", "down"):
        print(f"  {_short(CHECKOUT / 'bin/cluster')} {verb} --dir {_short(CLUSTER)}")


if __name__ == "__main__":
    sys.exit(main())
