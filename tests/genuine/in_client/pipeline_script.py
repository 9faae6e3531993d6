"""Runs in the client's environment: what a notebook does with the pipeline, a process for each line with a step and its
arguments (`forking.py`). The last line that a step prints is JSON."""

import json

from forking import serve
from pipeline.backend.pipeline import PipeLine
from pipeline.component import Intersection, Reader
from pipeline.component.component_base import FateComponent
from pipeline.interface import Data, Input, Output
from pipeline.runtime.entity import JobParameters


def upload(file, table):
    pipeline = PipeLine()
    pipeline.add_upload_data(file=file, table_name=table, namespace="it", head=1, partition=2)
    pipeline.upload(drop=1)
    return {}


def bind(path, table):
    """What the pipeline is told when a file of the server's machine is to be a table."""
    return PipeLine().bind_table(name=table, namespace="it", path=path, head=True)


def fit(guest, host, table, dump):
    """Builds a pipeline and runs it; `dump` has it afterwards, whatever became of it."""
    guest, host = int(guest), int(host)
    reader = Reader(name="reader_0")
    reader.get_party_instance(role="guest", party_id=guest).component_param(table={"name": table, "namespace": "it"})
    reader.get_party_instance(role="host", party_id=host).component_param(table={"name": table, "namespace": "it"})
    intersection = Intersection(name="intersection_0")
    pipeline = PipeLine().set_initiator(role="guest", party_id=guest).set_roles(guest=guest, host=host)
    pipeline.add_component(reader)
    pipeline.add_component(intersection, data=Data(data=reader.output.data))
    pipeline.compile()
    failure = ""
    try:
        pipeline.fit()
    except ValueError as error:
        failure = str(error)
    pipeline.dump(dump)
    return {"failure": failure, "job_id": pipeline.get_train_job_id()}


def follow(dump):
    """Follows the job of a pipeline to its end."""
    pipeline = PipeLine.load_model_from_file(dump)
    pipeline.continuously_fit()
    pipeline.dump(dump)
    return {"status": pipeline._fit_status}


def read(dump):
    """What the guest has of each component."""
    pipeline = PipeLine.load_model_from_file(dump)
    found = {}
    for name in ("reader_0", "intersection_0"):
        task = pipeline.get_component(name)
        frame = task.get_output_data()
        found[name] = {
            "columns": list(frame.columns), "rows": frame.values.tolist(), "summary": task.get_summary(),
            "two": task.get_output_data(limits=3, to_pandas=False)["data"], "table": task.get_output_data_table(),
            "model": task.get_model_param(),
        }
    return found


def deploy(dump):
    """Tries to have the pipeline predict."""
    pipeline = PipeLine.load_model_from_file(dump)
    try:
        pipeline.deploy_component(["intersection_0"])
    except ValueError as error:
        return {"raised": f"{type(error).__name__}: {error}"}
    return {}


class Fit(FateComponent):
    """A component that trains, as the classes of FATE's are written."""

    def __init__(self, **kwargs):
        FateComponent.__init__(self, **kwargs)
        self.input = Input(self.name, data_type="multi")
        self.output = Output(self.name, data_type="single")
        self._module_name = "Fit"


def train_and_predict(guest, host, table):
    """Trains, deploys, and predicts by another pipeline with a reader of its own."""
    guest, host = int(guest), int(host)

    def piped(name):
        pipeline = PipeLine().set_initiator(role="guest", party_id=guest).set_roles(guest=guest, host=host)
        reader = Reader(name=name)
        for role, party_id in (("guest", guest), ("host", host)):
            at = reader.get_party_instance(role=role, party_id=party_id)
            at.component_param(table={"name": table, "namespace": "trial"})
        return pipeline.add_component(reader), reader

    training, reader = piped("reader_0")
    fit_0 = Fit(name="fit_0")
    training.add_component(fit_0, data=Data(train_data=reader.output.data))
    training.compile()
    training.fit(JobParameters(task_conf={"fit_0": {"stage": "train"}}))
    training.deploy_component([fit_0])
    predicting, reader = piped("reader_1")
    rows = {training.fit_0.input.data.test_data: reader.output.data}
    predicting.add_component(training, data=Data(predict_input=rows))
    predicting.predict()
    return {"trained": training.get_train_job_id(), "predicted": predicting.get_predict_job_id()}


DOES = {"upload": upload, "bind": bind, "fit": fit, "follow": follow, "read": read, "deploy": deploy,
        "train_and_predict": train_and_predict}
serve(lambda argv: print("\n" + json.dumps(DOES[argv[0]](*argv[1:]))))
