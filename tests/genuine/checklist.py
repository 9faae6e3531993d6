"""The lines of checklist-v1: what clients and other servers may ask of a server of FATE Flow 1.11."""

from __future__ import annotations

import json
import re
from pathlib import Path

LINES: list[dict[str, str]] = json.loads(Path(__file__).with_name("checklist-v1.json").read_text(encoding="utf-8"))
CHECKLIST = {line["command"]: line["priority"] for line in LINES}

JOB_ID = "202601011200000000000"
_PIECES = {
    "job_id": JOB_ID, "component_name": "a_0", "task_id": f"{JOB_ID}_a_0", "task_version": "0", "role": "guest",
    "party_id": "9999", "status": "success", "stop_status": "canceled", "content_type": "table", "name": "fate_flow",
}


def paths_of(line: dict[str, str]) -> list[str]:
    """The paths that this line is about, below `/v1/`; none for what the client does alone."""
    found = re.findall(r"/v1/(\S+)", line["path"])
    return [re.sub(r"<(\w+)>", lambda piece: _PIECES[piece[1]], path) for path in found]


SEAT = "-r guest -p {guest}"
MODEL = "--model-id m --model-version 1"
OF_A_MODEL = f"{SEAT} {MODEL} -cpn a_0"
OF_MODELS = {
    "flow model import": "model import -c {files}/model.json",
    "flow model export": "model export -c {files}/model.json",
    "flow model deploy": f"model deploy {MODEL}",
    "flow model get-model-info": "model get-model-info --model-version 1",
    "flow model get-predict-dsl": f"model get-predict-dsl {MODEL} -o {{files}}",
    "flow model get-predict-conf": f"model get-predict-conf {MODEL} -o {{files}}",
    "flow model tag-model": "model tag-model -j {job} -t t",
    "flow model tag-model --remove": "model tag-model -j {job} -t t --remove",
    "flow model tag-list": "model tag-list -j {job}",
    "flow tag create": "tag create -t t",
    "flow tag query": "tag query -t t",
    "flow tag update": "tag update -t t --new-tag-name u",
    "flow tag delete": "tag delete -t t",
    "flow tag list": "tag list",
}
"""What is asked of each line of the store of models, whose successes and refusals are in test_genuine_models.py."""

OFFERED = (
    "flow table disable-delete", "flow table tracking-source", "flow table tracking-job",
    "flow component metric-delete", "flow template download", "flow job dsl",
    "flow service registry", "flow data writer", "flow table connector-create", "flow table connector-query",
    "flow key save", "flow key query", "flow key delete",
    *OF_MODELS,
)  # fmt: skip
"""Lines that are `later`, and are there."""

NOT_OFFERED = {
    "flow component hetero-model-merge":
        f"component hetero-model-merge {MODEL} -gid 1 -hids 2 -cpn a_0 --model-type t --output-format f -o {{files}}/x",
    "flow component woe-array-extract": f"component woe-array-extract {OF_A_MODEL} -o {{files}}/x",
    "flow component woe-array-merge": f"component woe-array-merge {OF_A_MODEL} -i {{files}}/dsl.json",
    "flow model load": "model load -j {job}",
    "flow model bind": "model bind -c {files}/conf.json",
    "flow model import --from-database": "model import -c {files}/model.json --from-database",
    "flow model export --to-database": "model export -c {files}/model.json --to-database",
    "flow model migrate": "model migrate -c {files}/model.json",
    "flow model homo-convert": "model homo-convert -c {files}/model.json",
    "flow model homo-deploy": "model homo-deploy -c {files}/homo.json",
    "flow provider register": "provider register -c {files}/provider.json",
    "flow checkpoint list": f"checkpoint list {OF_A_MODEL}",
    "flow checkpoint get": f"checkpoint get {OF_A_MODEL} --step-index 1",
}
"""What is asked of each line that is not offered: words after `flow`."""
