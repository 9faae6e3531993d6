"""A provider with an environment of its own: a Python with one package that speaks the contract of FATE 2."""

from __future__ import annotations

import sys
from pathlib import Path

from fate_flow.core.model.modules import ProviderPlace

VERSION = "1.4.0"

_PACKAGE = f'import os\n__version__, IMPORTED_BY = "{VERSION}", os.getpid()\n'
_MAIN = '''
import inspect, json, os, sys, time, urllib.request

import foreign

DESCRIPTIONS = {
    "say": """
component:
  name: say
  description: says a text
  provider: foreign
  version: 1.4.0
  labels: []
  roles: [guest, host]
  parameters:
    text: {type: str, default: null, optional: false, description: what it says, type_meta: {type: string}}
    times:
      {type: ConstrainedIntValue, default: 1, optional: true, description: '',
       type_meta: {title: t, type: integer, exclusiveMinimum: 0}}
  input_artifacts: {data: {}, model: {}}
  output_artifacts:
    data: {}
    model: {}
    metric: {metric: {types: [json_metric], optional: false, stages: [default], roles: [guest, host], is_multi: false}}
schema_version: v1
""",
    "train": """
component:
  name: train
  description: trains
  provider: foreign
  version: 1.4.0
  roles: [guest, host, arbiter]
  parameters: {method: {type: str, default: a, optional: false, description: '', type_meta: {type: string}}}
  input_artifacts:
    data:
      train_data: {types: [dataframe], optional: false, stages: [train], roles: [guest, host], is_multi: false}
      cv_data: {types: [dataframe], optional: true, stages: [cross_validation], roles: [guest, host], is_multi: true}
    model:
      input_model: {types: [json_model], optional: false, stages: [predict], roles: [guest], is_multi: false}
  output_artifacts:
    data: {}
    model: {output_model: {types: [json_model], optional: false, stages: [train], roles: [guest], is_multi: false}}
    metric: {}
""",
}


def send(outputs, metric):
    body = json.dumps({"data": [metric]}).encode()
    urllib.request.urlopen(urllib.request.Request(outputs["metric"]["uri"], body)).read()


def execute(config, result):
    said = json.load(open(config))
    parameters, outputs = said["parameters"], said["output_artifacts"]
    print("the worker of", said["component"], "runs")
    print("imported by", "itself" if foreign.IMPORTED_BY == os.getpid() else "the warm process")
    callers = [one.frame for one in inspect.stack() if inspect.getmodule(one.frame) is None]
    print("callers without a module:", [frame.f_code.co_filename for frame in callers])
    if parameters["text"] == "wait":
        print("pid", os.getpid(), flush=True)
        time.sleep(600)
    for step in range(parameters.get("times", 1)):
        data = [{"metric": 1 / (step + 1), "step": step, "timestamp": 1.5}]
        send(outputs, {"name": "said_loss", "type": "loss", "groups": [{"name": "said", "index": None}],
                       "step_axis": "iterations", "data": data})
    if parameters["text"] == "hang":
        print("pid", os.getpid(), flush=True)
        time.sleep(600)
    if parameters["text"] == "bad metric":
        send(outputs, {"name": "", "data": []})
    send(outputs, {"name": "summary", "type": None, "groups": [{"name": "said", "index": None}], "step_axis": None,
                   "data": {"words": len(parameters["text"].split())}})
    if parameters["text"] == "fail":
        why = "Traceback (most recent call last):\\n  a line\\nValueError: nothing to say"
        json.dump({"status": {"code": -1, "exceptions": why}}, open(result, "w"))
        sys.exit(1)
    if parameters["text"] == "die":
        os.kill(os.getpid(), 9)
    metric = {"uri": outputs["metric"]["uri"], "metadata": {}, "type_name": "json_metric"}
    made = {"data": {}, "model": {}, "metric": {"metric": [metric]}}
    done = {"status": {"code": 0}, "io_meta": {"inputs": {"data": {}, "model": {}}, "outputs": made}}
    json.dump(done, open(result, "w"))


def main(arguments):
    if arguments[:2] == ["component", "list"]:
        print({"buildin": sorted(DESCRIPTIONS), "thirdparty": []})
    elif arguments[:3] == ["component", "desc", "--name"]:
        print(DESCRIPTIONS[arguments[3]])
    elif arguments[:2] == ["component", "execute"]:
        options = dict(zip(arguments[2::2], arguments[3::2]))
        execute(options["--config"], options["--execution-final-meta-path"])
    else:
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
'''


def make_environment(folder: Path) -> Path:
    """Make the environment below the folder, without any other package; return its Python."""
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    package = site / "foreign" / "components"
    for one in (python.parent, package):
        one.mkdir(parents=True)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    python.symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    (site / "foreign" / "__init__.py").write_text(_PACKAGE)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(_MAIN)
    return python


def place_of(python: Path, version: str = VERSION) -> ProviderPlace:
    return ProviderPlace("foreign", version, str(python), "foreign.components")
