"""FATE's own components over servers of three parties, with TLS, against the same computations in one place.

The job files are the examples in docs/examples/fate.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.kit.fate.jobs import AT_ARBITER, AT_GUEST, AT_HOST, Fate, Run, column_of
from tests.kit.fate.rows import BANK, COMMON, LABEL, TELECOM, csv_of, customers, everybody, give, labels, table_of
from tests.kit.servers.heavy import EXAMPLES
from tests.kit.servers.party_servers import GUEST, HOST, OTHER

pytestmark = pytest.mark.timeout(900)

LEAST_VALUE = 0.1
"""Of a column: the threshold in the example."""
TOY = f"""
version: 1
initiator: guest {GUEST}
parties: {{guest: [{GUEST}], host: [{HOST}]}}
tasks:
  rows: {{component: fate.toy_example, parameters: {{data_num: 60, partition: 4}}}}
  some:
    component: fate.sample
    inputs: {{input_data: rows.output_data}}
    parameters: {{n: 40, hetero_sync: false}}
    at:
      guest: {{parameters: {{random_state: 1}}}}
      host: {{parameters: {{random_state: 2}}}}
  match: {{component: fate.psi, inputs: {{input_data: some.output_data}}}}
"""


def test_two_parties_find_the_rows_that_both_have(fate: Fate) -> None:
    run = fate.run(TOY)
    seats = (AT_GUEST, AT_HOST)
    found = [run.tables(seat, "some.output_data", "match.output_data") for seat in seats]
    [frame], of_table = run.frames(AT_GUEST, "match.output_data"), found[0][1]
    assert frame.keys() == of_table.keys()
    for name, column in frame.items():       # as FATE's own code reads it
        assert of_table[name] == (column if isinstance(column[0], str) else pytest.approx(column, rel=1e-6)), name
    (of_guest, *matched), (of_host, *also) = ([set(one["match_id"]) for one in frames] for frames in found)
    assert of_guest != of_host
    assert matched == also == [of_guest & of_host]
    for seat in seats:
        summary = dict(run.metrics(seat, "match")["summary"])
        assert (summary["input_count"], summary["intersect_count"]) == (40, len(of_guest & of_host))


# ---------------------------------------------------------------------- by columns


def example(name: str) -> str:
    return (EXAMPLES / "fate" / f"{name}.yaml").read_text(encoding="utf-8")


def aucs(run: Run, task: str = "evaluate") -> list[float]:
    """The AUC of each set of rows of an evaluation."""
    [data] = run.metrics(AT_GUEST, task).values()
    return [entry["val"] for _, sets in data for entries in sets.values() for entry in entries]


def weights_of(run: Run, task: str) -> list[float]:
    """The weights of the guest without the intercept, then those of the host, then the intercept."""
    guest, host = (run.model(seat, task)["data"]["estimator"]["param"] for seat in (AT_GUEST, AT_HOST))
    return [one for [one] in (*guest["coef_"], *host["coef_"], guest["intercept_"])]


def test_a_logistic_regression_by_columns_is_what_one_place_would_compute(by_columns: Fate) -> None:
    """All steps from the tables to the evaluation; the AUC is the same to 12 digits."""
    run = by_columns.run(example("logistic_regression"))
    [of_host] = run.tables(AT_HOST, "match.output_data")
    matched, train, test, predicted, *folds = run.tables(
        AT_GUEST, "match.output_data", "split.train_output_data", "split.test_output_data", "predict.test_output_data",
        "validate.cv_output_datas",
    )  # fmt: skip
    assert sorted(matched["id"]) == sorted(of_host["id"]) == COMMON
    train_ids, test_ids = train["id"], test["id"]
    assert (len(train_ids), sorted([*train_ids, *test_ids])) == (90, COMMON)
    assert [sorted(fold["id"]) for fold in folds] == [sorted(train_ids)] * 2
    y = labels(train_ids)
    columns = chosen_columns(run, train_ids, y)
    assert 0 < len(columns) < len((*BANK, *TELECOM))
    x = table_of(everybody(), columns, train_ids)
    [central] = by_columns.compute(
        ("descent", {"x": x, "y": y, "is_scaled": True, "is_logistic": True, "rate": 0.5, "alpha": 0.01, "rounds": 4})
    )
    asked = {"trained": x, "x": table_of(everybody(), columns, test_ids), "weights": central["weights"]}
    [scores] = by_columns.compute(("scores", asked))
    wanted = by_columns.compute(
        ("auc", {"scores": central["scores"], "y": y}), ("auc", {"scores": scores, "y": labels(test_ids)})
    )
    assert weights_of(run, "train") == pytest.approx(central["weights"], abs=1e-5)
    assert column_of(predicted, test_ids, "predict_score", "id") == pytest.approx(scores, abs=1e-5)
    assert aucs(run) == pytest.approx(wanted, abs=1e-12)
    assert len(aucs(run, "evaluate_folds")) == 2, "FATE keeps those of the last fold, of training and validation"
    losses = [value for _, [value] in run.metrics(AT_ARBITER, "train")["lr_loss"]]
    assert losses == pytest.approx(central["losses"], abs=1e-5)


def chosen_columns(run: Run, ids: Sequence[str], y: Sequence[float]) -> list[str]:
    """The columns that are of use, after a look at what was found out about all of them: moments, bins, the choice."""
    [bins, of_host] = [run.model(seat, "bin")["data"] for seat in (AT_GUEST, AT_HOST)]
    [seen_of_host] = bins["host_metrics_summary"].values()
    found = []
    for seat, columns, model, seen in (
        (AT_GUEST, BANK, bins, bins["metrics_summary"]), (AT_HOST, TELECOM, of_host, seen_of_host)
    ):  # fmt: skip
        x = table_of(everybody(), columns, ids)
        splits = [list(model["split_pt_dict"][name].values()) for name in columns]
        moments, values = run.fate.compute(("statistics", {"x": x}), ("bins", {"x": x, "y": y, "splits": splits}))
        described = run.model(seat, "describe")["data"]["metrics_summary"]
        assert described == {name: pytest.approx(one, rel=1e-5) for name, one in zip(columns, moments, strict=True)}
        # The guest knows the columns of the host by number alone.
        assert [list(one.values()) for one in seen["iv_array"].values()] == [pytest.approx(one) for one in values]
        # FATE leaves the first bin out when it adds up the value of a column.
        chosen = [name for name, one in zip(columns, values, strict=True) if sum(one[1:]) >= LEAST_VALUE]
        kept = run.model(seat, "choose", "train_output_model")["data"]["selection_obj_list"][-1]["selected_mask"]
        assert [name for name in columns if kept[name]] == chosen
        found += chosen
    return found


def test_other_regressions_by_columns_are_near_what_one_place_would_compute(by_columns: Fate) -> None:
    """The linear one, and the logistic one on secret shares, which computes with 17 bits behind the point."""
    run = by_columns.run(example("other_regressions"))
    [matched] = run.tables(AT_GUEST, "match.output_data")
    x, y = table_of(everybody(), (*BANK, *TELECOM), matched["id"]), labels(matched["id"])
    rows = {"x": x, "y": y, "is_scaled": True}
    linear, logistic = by_columns.compute(
        ("descent", {**rows, "is_logistic": False, "rate": 0.2, "alpha": 0.01, "rounds": 3}),
        ("descent", {**rows, "is_logistic": True, "rate": 0.5, "rounds": 2}),
    )
    assert weights_of(run, "linear") == pytest.approx(linear["weights"], abs=1e-5)
    assert weights_of(run, "shares") == pytest.approx(logistic["weights"], abs=1e-3)
    [wanted] = by_columns.compute(("auc", {"scores": logistic["scores"], "y": y}))
    assert aucs(run) == pytest.approx([wanted] * 2, abs=2e-3)


def test_boosted_trees_by_columns_are_as_good_as_those_of_one_place(by_columns: Fate) -> None:
    run = by_columns.run(example("trees"))
    [of_host] = run.tables(AT_HOST, "some.output_data")
    train, validate, test, joined, some, *folds = run.tables(
        AT_GUEST, *(f"split.{part}_output_data" for part in ("train", "validate", "test")), "join.output_data",
        "some.output_data", "validate.cv_output_datas",
    )  # fmt: skip
    parts = [set(one["id"]) for one in (train, validate, test)]
    assert sorted(one for part in parts for one in part) == COMMON
    assert set(joined["id"]) == parts[0] | parts[1]
    assert set(some["id"]) == set(of_host["id"]) <= set(joined["id"])
    assert len(some["id"]) == 80
    assert [len(fold["id"]) for fold in folds] == [80] * 2
    x, y = table_of(everybody(), (*BANK, *TELECOM), some["id"]), labels(some["id"])
    [wanted] = by_columns.compute(("trees", {"x": x, "y": y, "trees": 2, "depth": 2, "rate": 0.3}))
    of_training, of_test = aucs(run)
    assert of_training == pytest.approx(wanted, abs=0.05)
    assert of_test > 0.6


TWO_HOSTS = f"""
version: 1
initiator: guest {GUEST}
parties: {{guest: [{GUEST}], host: [{HOST}, {OTHER}], arbiter: [{HOST}]}}
tasks:
  read:
    component: Reader
    outputs: {{data: [rows]}}
    at:
      guest: {{parameters: {{table: {{namespace: trial, name: bank}}}}}}
      host {HOST}: {{parameters: {{table: {{namespace: trial, name: telecom}}}}}}
      host {OTHER}: {{parameters: {{table: {{namespace: trial, name: shop}}}}}}
      arbiter: {{run: false}}
  match: {{component: fate.psi, inputs: {{input_data: read.rows}}}}
  train:
    component: fate.coordinated_lr
    stage: train
    inputs: {{train_data: match.output_data}}
    parameters:
      epochs: 2
      batch_size: 64
      early_stop: weight_diff
      tol: 0.0
      init_param: {{method: zeros, fit_intercept: true}}
      optimizer: {{method: sgd, penalty: l2, alpha: 0.01, optimizer_params: {{lr: 0.05}}}}
      learning_rate_scheduler: {{method: linear, scheduler_params: {{start_factor: 1.0}}}}
"""


def test_two_hosts_train_in_batches_and_one_of_them_is_the_arbiter_as_well(by_columns: Fate) -> None:
    """Roles of one party in one job have their own seats."""
    names, ids = ("visits", "basket"), COMMON[20:]
    more = customers(15, range(200), names, (0.5, 0.5))
    give(by_columns.parties.parties[OTHER], "shop", csv_of(more, names, ids))
    run = by_columns.run(TWO_HOSTS)
    [matched] = run.tables(AT_GUEST, "match.output_data")
    assert sorted(matched["id"]) == ids
    by_sample = sorted(range(len(ids)), key=lambda number: matched["sample_id"][number])
    both = [mine + others for mine, others in zip(
        table_of(everybody(), (*BANK, *TELECOM), matched["id"]), table_of(more, names, matched["id"]), strict=True
    )]  # fmt: skip
    batches = [by_sample[at : at + 64] for at in range(0, len(ids), 64)]
    asked = {"x": both, "y": labels(matched["id"]), "is_logistic": True, "rate": 0.05, "alpha": 0.01, "rounds": 2}
    [central] = by_columns.compute(("descent", {**asked, "batches": batches}))
    found = [run.model(seat, "train")["data"]["estimator"]["param"] for seat in (AT_GUEST, AT_HOST, f"host {OTHER}")]
    weights = [one for part in found for [one] in part["coef_"]]
    assert [*weights, *found[0]["intercept_"]] == pytest.approx(central["weights"], abs=1e-5)


# ---------------------------------------------------------------------- by rows


def test_a_logistic_regression_by_rows_is_what_averaging_would_compute(fate: Fate) -> None:
    columns = BANK
    rows = customers(16, range(200), columns, (1.0, -1.0, 0.0))
    own = {GUEST: sorted(rows)[:120], HOST: sorted(rows)[120:]}
    for party_id, ids in own.items():
        give(fate.parties.parties[party_id], "branch", csv_of(rows, (LABEL, *columns), ids), label_name=LABEL)
    run = fate.run(example("by_rows"))
    places = [{"x": table_of(rows, columns, ids), "y": [rows[one][LABEL] for one in ids]} for ids in own.values()]
    [central] = fate.compute(("averaged", {"places": places, "rounds": 4, "rate": 0.5}))
    for seat in (AT_GUEST, AT_HOST):
        state = run.model(seat, "train")["param"]["model"]["state_dict"]
        [weights], intercept = state["models.0.weight"], state["models.0.bias"]
        assert [*weights, *intercept] == pytest.approx(central["weights"], abs=1e-4)
