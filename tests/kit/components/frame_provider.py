"""A provider that speaks FATE 2's contract for data frames, with a small stand-in for FATE's own code for them.

`reader` names a table. `twice` reads a data frame and makes another one, with the values of each column doubled. In the
first version of its task it may `fail`, find the disk `full` or `hang` with half of its data frame written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

from fate_flow.core.model.modules import ProviderPlace

VERSION = "2.9.1"

_FILES = {
    "__init__.py": f'import os\n__version__, IMPORTED_BY = "{VERSION}", os.getpid()\n',
    "components/__init__.py": "",
    "arch/__init__.py": """
        class Context:
            def __init__(self, computing):
                self.computing = computing


        class URI:
            from_string = staticmethod(str)
    """,
    "arch/computing.py": """
        import json
        import os


        def folder_of(uri):
            return uri.removeprefix("standalone://")


        class Table:
            def __init__(self, pairs, schema=None, partitions=1):
                self.pairs, self.schema, self.num_partitions = list(pairs), schema or {}, partitions

            def collect(self):
                yield from self.pairs

            def save(self, uri, schema, options):
                os.makedirs(folder_of(uri))
                with open(folder_of(uri) + "/pairs.json", "w") as file:
                    json.dump(self.pairs, file)
                schema.update(self.schema)


        class Session:
            def __init__(self, data_dir):
                self.data_dir = data_dir

            def parallelize(self, data, include_key, partition):
                return Table(data, None, partition)

            def load(self, uri, schema, options):
                with open(folder_of(uri) + "/pairs.json") as file:
                    return Table(json.load(file), schema)

            def stop(self):
                pass


        class ComputingBuilder:
            def __init__(self, name):
                self.name = name

            def build_standalone(self, data_dir, options):
                return Session(data_dir)
    """,
    "arch/dataframe.py": """
        from framed.arch.computing import Table


        class TableReader:
            def __init__(self, sample_id_name, match_id_name, header, delimiter, dtype, label_name=None,
                         label_type="int32", weight_name=None, weight_type="float32", match_id_list=None):
                self.delimiter, self.label = delimiter, label_name
                self.names = header.split(delimiter)
                typed = dtype if isinstance(dtype, dict) else {name: dtype for name in self.names}
                self.types = typed | {label_name: label_type, weight_name: weight_type}
                self.types |= {name: "index" for name in (sample_id_name, match_id_name)}

            def to_frame(self, context, table):
                # ids, label and weight come first in a frame of FATE
                order = sorted(range(len(self.names)), key=lambda at: (at > 1, self.names[at] != self.label))
                rows = [[[key, *value.split(self.delimiter)][at] for at in order] for key, value in table.collect()]
                typed = [[self.value(self.names[at], text) for at, text in zip(order, row)] for row in rows]
                fields = [
                    {"name": name, "dtype": self.types[name], "property": self.role(at, name)}
                    for at, name in ((at, self.names[at]) for at in order)
                ]
                schema = {"type": "fate.arch.dataframe", "schema_meta": {"fields": fields},
                          "partition_order_mappings": {}}
                return Table([(0, typed)], schema, table.num_partitions)

            def role(self, at, name):
                return ("sample_id", "match_id")[at] if at < 2 else "label" if name == self.label else "column"

            def value(self, name, text):
                kind = self.types[name]
                return float(text) if "float" in kind else int(text) if "int" in kind else text


        def serialize(context, frame):
            return frame
    """,
    "components/__main__.py": '''
        import errno
        import json
        import os
        import sys
        import time
        import traceback

        import framed

        DESCRIPTIONS = {
            "reader": """
        component:
          name: reader
          description: names a table
          roles: [guest, host, arbiter]
          parameters:
            name: {type: str, default: null, optional: false, description: '', type_meta: {type: string}}
            namespace: {type: str, default: null, optional: false, description: '', type_meta: {type: string}}
          input_artifacts: {data: {}, model: {}}
          output_artifacts:
            data:
              output_data:
                {types: [data_unresolved], optional: false, stages: [default], roles: [guest, host, arbiter],
                 is_multi: false}
            model: {}
            metric: {}
        """,
            "twice": """
        component:
          name: twice
          description: doubles the values
          roles: [guest, host]
          parameters:
            first: {type: str, default: '', optional: true, description: '', type_meta: {type: string}}
          input_artifacts:
            data: {input_data: {types: [dataframe], optional: false, stages: [default], roles: [guest, host],
                   is_multi: false}}
            model: {}
          output_artifacts:
            data: {output_data: {types: [dataframe], optional: false, stages: [default], roles: [guest, host],
                   is_multi: false}}
            model: {}
            metric: {}
        """,
        }


        def place(one):
            return one["uri"].removeprefix("standalone://")


        def execute(config, result):
            said = json.load(open(config))
            read, written = said["input_artifacts"]["input_data"], said["output_artifacts"]["output_data"]
            assert read["type_name"] == "dataframe", read
            pairs = json.load(open(place(read) + "/pairs.json"))
            fields = read["metadata"]["metadata"]["schema"]["schema_meta"]["fields"]
            pairs = [[key, [[doubled(field, value) for field, value in zip(fields, row)] for row in rows]]
                     for key, rows in pairs]
            os.makedirs(place(written))
            first = said["parameters"].get("first") if "twice_0_0_" in place(written) else None
            if first:
                open(place(written) + "/pairs.json", "w").write("[[0, [")
                print("imported by", "itself" if framed.IMPORTED_BY == os.getpid() else "the warm process", flush=True)
            if first == "hang":
                time.sleep(600)
            if first == "full":
                raise OSError(errno.ENOSPC, "No space left on device", place(written))
            json.dump(pairs, open(place(written) + "/pairs.json", "w"))
            count = sum(len(rows) for _, rows in pairs)
            metadata = {"metadata": {"schema": read["metadata"]["metadata"]["schema"]},
                        "data_overview": {"count": count, "samples": pairs[0][1][:100] if pairs else []}}
            made = {"output_data": {**written, "metadata": metadata}}
            done = {"status": {"code": 0}, "io_meta": {"inputs": {}, "outputs": {"data": made, "model": {}}}}
            json.dump(done, open(result, "w"))


        def doubled(field, value):
            return value * 2 if "float" in field["dtype"] else value


        arguments = sys.argv[1:]
        if arguments[:2] == ["component", "list"]:
            print({"buildin": sorted(DESCRIPTIONS), "thirdparty": []})
        elif arguments[:3] == ["component", "desc", "--name"]:
            print(DESCRIPTIONS[arguments[3]])
        else:
            options = dict(zip(arguments[2::2], arguments[3::2]))
            result = options["--execution-final-meta-path"]
            try:
                execute(options["--config"], result)
            except OSError:
                json.dump({"status": {"code": -1, "exceptions": traceback.format_exc()}}, open(result, "w"))
                sys.exit(1)
    ''',
}


def make_environment(folder: Path) -> Path:
    """Make the environment below the folder, without any other package; return its Python."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    python.symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    for name, text in _FILES.items():
        file = packages_in(folder) / "framed" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return python


def packages_in(folder: Path) -> Path:
    """Return the folder with the packages of the environment."""
    return folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"


def place_of(python: Path) -> ProviderPlace:
    return ProviderPlace("framed", VERSION, str(python), "framed.components")
