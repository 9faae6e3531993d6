"""The computation of the FATE demo with all rows in one place, which none of its parties could do.

It is written here without FATE, numpy or any other package, so that nothing is compared with itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, stdev

Rows = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Learned:
    """What a logistic regression has learned: of each column, its mean, deviation and weight; the intercept; and the
    loss before each round."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    losses: tuple[float, ...]

    def score(self, row: Sequence[float]) -> float:
        """Return how likely the label of this row is 1."""
        scaled = zip(row, self.means, self.deviations, self.weights, strict=True)
        return 1 / (1 + exp(-self.intercept - sum((x - mean) / width * weight for x, mean, width, weight in scaled)))


def learn(rows: Rows, labels: Sequence[int], *, rounds: int, rate: float, alpha: float) -> Learned:
    """Train by gradients of all rows, from weights of zero, with an L2 penalty of `alpha`.

    The loss is the Taylor series of the logistic loss to the second order, as in FATE: ciphers can be added only."""
    columns = list(zip(*rows, strict=True))
    means, deviations = tuple(map(fmean, columns)), tuple(map(stdev, columns))
    scaled = [
        [(x - mean) / width for x, mean, width in zip(row, means, deviations, strict=True)] for row in rows
    ]  # fmt: skip
    signs = [2 * label - 1 for label in labels]
    weights, intercept, losses = [0.0] * len(columns), 0.0, []
    for _ in range(rounds):
        sums = [sum(map(float.__mul__, row, weights)) + intercept for row in scaled]
        losses.append(
            fmean(log(2) - 0.5 * sign * one + 0.125 * one**2 for sign, one in zip(signs, sums, strict=True))
            + 0.5 * alpha * sum(one**2 for one in (*weights, intercept))
        )
        errors = [0.25 * one - 0.5 * sign for sign, one in zip(signs, sums, strict=True)]
        slopes = [fmean(map(float.__mul__, column, errors)) for column in zip(*scaled, strict=True)]
        weights = [one - rate * (slope + alpha * one) for one, slope in zip(weights, slopes, strict=True)]
        intercept -= rate * fmean(errors)
    return Learned(means, deviations, tuple(weights), intercept, tuple(losses))


def auc(scores: Sequence[float], labels: Sequence[int]) -> float:
    """Return the part of the pairs of a row with label 1 and one with 0 whose scores are in this order."""
    high = [score for score, label in zip(scores, labels, strict=True) if label]
    low = [score for score, label in zip(scores, labels, strict=True) if not label]
    return fmean((one > other) + 0.5 * (one == other) for one in high for other in low)
