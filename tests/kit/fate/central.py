"""What FATE's data frames contain, and what its algorithms compute, with all rows in one place.

FATE's Python runs this file: `PYTHON central.py`, with requests as JSON on the standard input. It prints the answers,
as JSON, in its last line. The computations are written here with numpy; they use nothing of FATE.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np


def frames(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns of data frames, each by its `seat`, and its `uri` and `metadata` in a result file."""
    from types import SimpleNamespace

    from fate.arch import Context, dataframe
    from fate.arch.computing import ComputingBuilder
    from fate.arch.unify import URI

    found = []
    for number, one in enumerate(asked):
        folder, _, _ = one["uri"].removeprefix("standalone://").rsplit("/", 2)
        computing = ComputingBuilder(f"look_{number}").build_standalone(data_dir=folder, options={"task_cores": 1})
        me = tuple(one["seat"].split())
        federation = SimpleNamespace(local_party=me, parties=[me])
        schema = one["metadata"]["metadata"]["schema"]
        table = computing.load(uri=URI.from_string(one["uri"]), schema=schema, options=None)
        frame = dataframe.deserialize(Context(computing=computing, federation=federation), table)
        rows = frame.as_pd_df()
        found.append({name: [_plain(value) for value in rows[name]] for name in rows.columns})
        computing.destroy()
    return found


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def standardized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)


def descent(asked: dict[str, Any]) -> dict[str, Any]:
    """Train a logistic (`is_logistic`) or linear regression by gradients, from weights of zero; the intercept is last.

    The logistic loss is its Taylor series of the second order, which FATE uses, since ciphers can be added only.
    `batches` are the numbers of the rows of each. Return weights, scores, and the loss before each round."""
    x, y = np.array(asked["x"], float), np.array(asked["y"], float)
    if asked.get("is_scaled"):
        x = standardized(x)
    x = np.hstack([x, np.ones((len(x), 1))])
    batches = [np.array(one) for one in asked.get("batches") or [list(range(len(x)))]]
    is_logistic, rate, alpha = asked["is_logistic"], asked["rate"], asked.get("alpha", 0.0)
    kept = np.ones(x.shape[1])
    kept[-1] = 0.0
    weights, losses = np.zeros(x.shape[1]), []
    for _ in range(asked["rounds"]):
        loss = 0.0
        for batch in batches:
            scores = x[batch] @ weights
            if is_logistic:
                signs = 2 * y[batch] - 1
                errors = 0.25 * scores - 0.5 * signs
                loss += float(np.mean(np.log(2) - 0.5 * signs * scores + 0.125 * scores**2))
            else:
                errors = scores - y[batch]
                loss += float(0.5 * np.mean(errors**2))
            loss += 0.5 * alpha * float(weights @ weights)
            weights = weights - rate * (x[batch].T @ errors / len(batch) + alpha * kept * weights)
        losses.append(loss)
    scores = x @ weights
    if is_logistic:
        scores = 1 / (1 + np.exp(-scores))
    return {"weights": weights.tolist(), "scores": scores.tolist(), "losses": losses}


def scores(asked: dict[str, Any]) -> list[float]:
    """Return what weights of a logistic regression say of rows, which are scaled as the rows of its training were."""
    trained, x = np.array(asked["trained"], float), np.array(asked["x"], float)
    x = (x - trained.mean(axis=0)) / trained.std(axis=0, ddof=1)
    found = np.hstack([x, np.ones((len(x), 1))]) @ np.array(asked["weights"])
    return (1 / (1 + np.exp(-found))).tolist()


def auc(asked: dict[str, Any]) -> float:
    """Return the part of the pairs of a positive and a negative row whose scores are in the right order."""
    found, y = np.array(asked["scores"], float), np.array(asked["y"])
    differences = found[y == 1][:, None] - found[y == 0][None, :]
    return float(np.mean((differences > 0) + 0.5 * (differences == 0)))


def averaged(asked: dict[str, Any]) -> dict[str, Any]:
    """Train a logistic regression at several places, and average the weights after each round, by numbers of rows.

    Gradients longer than 1 are shortened to 1, as the trainer of `transformers` does, which FATE uses here."""
    places = [(np.array(one["x"], float), np.array(one["y"], float)) for one in asked["places"]]
    width = places[0][0].shape[1] + 1
    total = sum(len(y) for _, y in places)
    weights = np.zeros(width)
    for _ in range(asked["rounds"]):
        found = np.zeros(width)
        for x, y in places:
            x = np.hstack([x, np.ones((len(x), 1))])
            gradient = x.T @ (1 / (1 + np.exp(-(x @ weights))) - y) / len(y)
            gradient *= min(1.0, 1.0 / (np.linalg.norm(gradient) + 1e-6))
            found += len(y) / total * (weights - asked["rate"] * gradient)
        weights = found
    return {"weights": weights.tolist()}


def trees(asked: dict[str, Any]) -> float:
    """Return the AUC of gradient boosted trees on the rows that they were trained with."""
    from sklearn.ensemble import GradientBoostingClassifier

    x, y = np.array(asked["x"], float), np.array(asked["y"])
    model = GradientBoostingClassifier(
        n_estimators=asked["trees"], max_depth=asked["depth"], learning_rate=asked["rate"], random_state=0
    )
    return auc({"scores": model.fit(x, y).predict_proba(x)[:, 1], "y": y})


def statistics(asked: dict[str, Any]) -> list[dict[str, float]]:
    x = np.array(asked["x"], float)
    return [
        {"mean": float(one.mean()), "std": float(one.std(ddof=1)), "min": float(one.min()), "max": float(one.max())}
        for one in x.T
    ]


def bins(asked: dict[str, Any]) -> list[list[float]]:
    """Return the information value of each bin of each column; `splits` are the upper ends of its bins.

    FATE keeps columns with four bytes a value, which decides about rows at the end of a bin."""
    x, y, found = np.array(asked["x"], np.float32), np.array(asked["y"]), []
    for column, splits in zip(x.T, asked["splits"], strict=True):
        ends = np.array([*splits[:-1], np.inf])
        at = np.searchsorted(ends, column.astype(float), side="left")
        values = []
        for number in range(len(splits)):
            events, others = int(((at == number) & (y == 1)).sum()), int(((at == number) & (y == 0)).sum())
            event_rate = events / int((y == 1).sum()) + 0.5 * (events == 0)
            other_rate = others / int((y == 0).sum()) + 0.5 * (others == 0)
            values.append((event_rate - other_rate) * float(np.log(event_rate / other_rate)))
        found.append(values)
    return found


ANSWERS = {
    one.__name__: one for one in (frames, descent, scores, auc, averaged, trees, statistics, bins)
}  # fmt: skip


def main() -> None:
    print(json.dumps([ANSWERS[name](asked) for name, asked in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
