"""Three organisations count their common customers and sum their spending, and none shows its rows.

A retailer (guest 9999), a bank (host 10000) and a telecom (host 10001) each upload a table of customers. One job runs
Reader -> Intersection -> SecureSum over the three servers, which know each other by keys and speak mutual TLS. The
script compares the result with the plain answer, which only the script can compute, since it made the tables.
"""

from __future__ import annotations

import csv
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from servers import Folder, Organisation, Servers, flow_at_once, how_to_go_on, running, short

SEED = 20_260_101
RETAILER, BANK, TELECOM = "retailer", "bank", "telecom"
ORGANISATIONS = (
    Organisation("guest", "9999", RETAILER), Organisation("host", "10000", BANK), Organisation("host", "10001", TELECOM)
)  # fmt: skip
COLUMNS = {
    RETAILER: ["age_band", "purchases"], BANK: ["segment", "fees"], TELECOM: ["tariff", "monthly_bill"]
}  # fmt: skip
ROWS = {RETAILER: 4_000, BANK: 3_500, TELECOM: 3_000}

Tables = dict[str, dict[str, list[str]]]


def run(folder: Folder, keep: bool) -> bool:
    """Run the demo, and return whether the result is right."""
    with running(folder, ORGANISATIONS, keep) as servers:
        tables = make_tables(folder.root / "data")
        upload(folder, servers, tables)
        job_id = submit(folder, servers)
        is_right = report(servers, job_id, tables)
        if keep:
            how_to_go_on(folder, servers[RETAILER], job_id)
    return is_right


# ------------------------------------------------------------------ data


def make_tables(folder: Path) -> Tables:
    """Write a table of customers for each organisation as a CSV file; return the rows by customer number."""
    draw = random.Random(SEED)
    folder.mkdir()
    people = [f"C{number:07d}" for number in draw.sample(range(1, 10_000_000), 8_000)]
    tables = {}
    for name, columns in COLUMNS.items():
        chosen = draw.sample(people, ROWS[name])
        tables[name] = {person: _row(draw, columns[0]) for person in chosen}
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["customer", *columns])
            writer.writerows([person, *row] for person, row in tables[name].items())
    return tables


def _row(draw: random.Random, kind: str) -> list[str]:
    parts = {
        "age_band": ["18-29", "30-44", "45-59", "60+"],
        "segment": ["private", "premium", "business"],
        "tariff": ["prepaid", "S", "M", "L"],
    }
    return [draw.choice(parts[kind]), f"{draw.lognormvariate(4, 0.8):.2f}"]


def upload(folder: Folder, servers: Servers, tables: Tables) -> None:
    print("uploading a table at each party ...")
    uploads, questions = [], []
    for name, server in servers.items():
        conf = {
            "file": str(folder.root / "data" / f"{name}.csv"), "head": 1, "partition": 4, "id_delimiter": ",",
            "namespace": "demo", "table_name": name,
        }  # fmt: skip
        path = folder.write(f"upload_{name}.json", conf)
        uploads.append((server, ("data", "upload", "-c", str(path), "--watch")))
        questions.append((server, ("table", "info", "-n", "demo", "-t", name)))
    flow_at_once(uploads)
    for (name, server), info in zip(servers.items(), flow_at_once(questions), strict=True):
        count = info["data"]["count"]
        print(f"  {name:<9} {count} rows at party {server.of.party_id}")
        if count != len(tables[name]):
            raise SystemExit(f"the {name} has {count} rows, {len(tables[name])} were sent")


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
    def of(name: str) -> dict[str, Any]:
        _, column = COLUMNS[name]
        return {"reader_0": {"table": {"namespace": "demo", "name": name}}, "secure_sum_0": {"column": column}}

    guest, *hosts = (int(one.party_id) for one in ORGANISATIONS)
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": guest},
        "role": {"guest": [guest], "host": hosts},
        "job_parameters": {"common": {"task_cores": 2}},
        "component_parameters": {
            "role": {"guest": {"0": of(RETAILER)}, "host": {"0": of(BANK), "1": of(TELECOM)}}
        },
    }


def submit(folder: Folder, servers: Servers) -> str:
    conf_path, dsl_path = folder.write("conf.json", conf()), folder.write("dsl.json", DSL)
    print(f"\n$ flow job submit -c {short(conf_path)} -d {short(dsl_path)} --watch")
    answer = servers[RETAILER].flow("job", "submit", "-c", str(conf_path), "-d", str(dsl_path), "--watch")
    return str(answer["jobId"])


# ------------------------------------------------------------------ the result


def report(servers: Servers, job_id: str, tables: Tables) -> bool:
    """Print the result at each party; return whether it is the plain answer."""
    common = set.intersection(*(set(table) for table in tables.values()))
    total = sum(Decimal(table[person][1]) for table in tables.values() for person in common)
    print(f"\njob {job_id}: the result at each party")
    is_right = True
    numbers = _numbers(servers, job_id)
    for name, server in servers.items():
        found = numbers[name]
        print(
            f"  {server.of.role:<5} {server.of.party_id:>5} {name:<9} {len(tables[name])} rows"
            f" -> {found['intersect_count']} in common -> total {found['total']}"
        )
        is_right = is_right and int(found["intersect_count"]) == len(common) and Decimal(found["total"]) == total
    print(f"  plain answer, which no party could compute: {len(common)} in common, total {total}")
    print("\nlogs")
    for server in servers.values():
        print(f"  party {server.of.party_id:>5}  {short(server.home / 'logs' / job_id)}/")
    return is_right


def _numbers(servers: Servers, job_id: str) -> dict[str, dict[str, str]]:
    """Return the metrics of each party by its name."""
    asked = [(name, component) for name in servers for component in ("intersection_0", "secure_sum_0")]
    answers = flow_at_once([
        (servers[name], ("component", "metric-all", "-j", job_id, *servers[name].seat, "-cpn", component))
        for name, component in asked
    ])  # fmt: skip
    found: dict[str, dict[str, str]] = {name: {} for name in servers}
    for (name, _), answer in zip(asked, answers, strict=True):
        for names in answer["data"].values():
            for metric in names.values():
                found[name].update({key: str(value) for key, value in metric["data"]})
    return found
