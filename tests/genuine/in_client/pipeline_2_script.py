"""Runs in the environment of FATE 2's client: what a notebook does with its pipeline, a process for each line with a
step and its arguments (`forking.py`). The last line that a step prints is JSON."""

import json

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, CoordinatedLR, Evaluation, FeatureScale, Reader
from forking import serve

SPACE = "trial"


def upload(file, name, label):
    """A CSV file of the client becomes a data frame."""
    meta = {"match_id_name": "id", "dtype": "float64"}
    meta |= {"label_name": label, "label_type": "int32"} if label else {}
    FateFlowPipeline().transform_local_file_to_dataframe(
        file=file, head=True, meta=meta, extend_sid=True, namespace=SPACE, name=name, partitions=2
    )
    return {}


def readers(name, guest, host, of_guest="bank", of_host="telecom"):
    reader = Reader(name, runtime_parties={"guest": guest, "host": host})
    reader.guest.task_parameters(namespace=SPACE, name=of_guest)
    reader.hosts[0].task_parameters(namespace=SPACE, name=of_host)
    return reader


def train(guest, host, arbiter):
    """Train, evaluate, deploy and predict; what the guest has of each step."""
    pipeline = FateFlowPipeline().set_parties(guest=guest, host=host, arbiter=arbiter)
    reader = readers("reader_0", guest, host)
    psi = PSI("psi_0", input_data=reader.outputs["output_data"])
    lr = CoordinatedLR(
        "lr_0", epochs=3, batch_size=None, early_stop="weight_diff", train_data=psi.outputs["output_data"],
        optimizer={"method": "SGD", "optimizer_params": {"lr": 0.5}, "penalty": "l2", "alpha": 0.01},
        init_param={"fit_intercept": True, "method": "zeros"},
    )
    evaluation = Evaluation(
        "evaluation_0", runtime_parties={"guest": guest}, default_eval_setting="binary",
        input_datas=lr.outputs["train_output_data"],
    )
    pipeline.add_tasks([reader, psi, lr, evaluation])
    pipeline.compile()
    pipeline.fit()
    trained = pipeline.get_task_info("lr_0")
    found = {
        "job": pipeline.model_info.job_id,
        "model_id": pipeline.model_info.model_id,
        "intersection": pipeline.get_task_info("psi_0").get_output_metric(),
        "evaluation": pipeline.get_task_info("evaluation_0").get_output_metric(),
        "model": trained.get_output_model(),
        "scores": rows(trained.get_output_data()),
    }
    pipeline.deploy([psi, lr])
    deployed = pipeline.get_deployed_pipeline()
    again = readers("reader_1", guest, host)
    deployed.psi_0.input_data = again.outputs["output_data"]
    predicting = FateFlowPipeline()
    predicting.add_tasks([again, deployed])
    predicting.compile()
    predicting.predict()
    found["predicted"] = rows(predicting.get_task_info("lr_0").get_output_data())
    found["predict_job"] = predicting.model_info.job_id
    return found


def go_on(guest, host, of_guest, of_host):
    """Train, and train on in a second job, which inherits all tasks of the first; deploy both jobs' tasks and predict.
    The host is the arbiter, too."""
    reader = readers("reader_0", guest, host, of_guest, of_host)
    psi = PSI("psi_0", input_data=reader.outputs["output_data"])
    scale = FeatureScale("scale_0", method="standard", train_data=psi.outputs["output_data"])
    first = an_lr("lr_0", scale, init_param={"fit_intercept": True, "method": "zeros"})
    inherited = [reader, psi, scale, first]
    training = FateFlowPipeline().set_parties(guest=guest, host=host, arbiter=host)
    training.add_tasks(inherited)
    training.compile()
    training.fit()
    second = an_lr("lr_1", scale, warm_start_model=first.outputs["output_model"])
    going_on = FateFlowPipeline().set_parties(guest=guest, host=host, arbiter=host)
    names = [one.task_name for one in inherited]
    going_on.conf.set("inheritance", {"job_id": training.model_info.job_id, "task_list": names})
    going_on.add_tasks([*inherited, second])
    going_on.compile()
    going_on.fit()
    going_on.deploy([psi, scale, second])
    deployed = going_on.get_deployed_pipeline()
    again = readers("reader_1", guest, host, of_guest, of_host)
    deployed.psi_0.input_data = again.outputs["output_data"]
    predicting = FateFlowPipeline()
    predicting.conf.set("inheritance", None)
    predicting.add_tasks([again, deployed])
    predicting.compile()
    predicting.predict()
    found = {"trained": (training, "lr_0"), "went_on": (going_on, "lr_1")}
    return {
        **{key: {"job": one.model_info.job_id, "model": one.get_task_info(task).get_output_model(),
                 "scores": rows(one.get_task_info(task).get_output_data())} for key, (one, task) in found.items()},
        "predicted": rows(predicting.get_task_info("lr_1").get_output_data()),
        "predict_job": predicting.model_info.job_id,
    }


def an_lr(name, scale, **more):
    return CoordinatedLR(
        name, epochs=1, batch_size=None, train_data=scale.outputs["train_output_data"],
        optimizer={"method": "SGD", "optimizer_params": {"lr": 0.5}}, **more,
    )


def rows(frames):
    """Of each output with one file, its columns and its rows."""
    return {key: {"columns": list(one.columns), "rows": one.values.tolist()} for key, one in frames.items()}


DOES = {"upload": upload, "train": train, "go_on": go_on}
serve(lambda argv: print("\n" + json.dumps(DOES[argv[0]](*argv[1:]))))
