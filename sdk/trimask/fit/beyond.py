"""Models that second moments cannot give, each with the reason and with what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

from trimask.errors import BeyondSecondMoments

__all__ = ["ALIASES", "cox", "poisson", "quantile", "refuse"]

_WHY = {
    "logit": (
        "a logistic regression",
        "its likelihood has log(1 + exp(x'b)) of every row, which no second moment determines",
        (
            "fit.linear_probability (differences in probability), fit.quadratic_logit (log odds, an approximation for small "
            "effects), fit.crosstab (exact odds ratios of one group), or fit.logit(trimask.synthesize(dataset), formula): "
            "it fits synthetic records and says what its errors leave out"
        ),
    ),
    "poisson": (
        "a Poisson regression",
        "its likelihood has exp(x'b) of every row, which no second moment determines",
        (
            "fit.rates (rates over time at risk, by group), fit.ols of a logarithm that the study declares, or a Poisson "
            "regression by another program of trimask.synthesize(dataset).frame, whose errors are then too small"
        ),
    ),
    "quantile": (
        "a quantile regression",
        "an order of values is in no sum of products",
        (
            'fit.quantiles of a number whose bins the study declares ([[derived]], kind = "bins"), also by group; '
            "fit.describe has mean (SD) now. Quantiles of synthetic records (trimask.synthesize) are as good as their "
            "cells, which are the study's bins where it declares them"
        ),
    ),
    "cox": (
        "a Cox regression",
        "it needs who was at risk at each event's time, row by row",
        (
            "fit.survival (a life table from declared bins of time), or fit.rates with the events and the time at risk, by "
            "group: rate ratios hold where hazards are constant. Synthetic records (trimask.synthesize) know of time and "
            "event no more than their two-way table"
        ),
    ),
}
ALIASES = {
    "logistic": "logit", "probit": "logit", "glm": "logit", "logistic_regression": "logit", "poisson_regression": "poisson",
    "negative_binomial": "poisson", "quantreg": "quantile", "median": "quantile", "coxph": "cox",
    "phreg": "cox", "kaplan_meier": "cox",
}  # fmt: skip


def refuse(name: str) -> NoReturn:
    """Say why, and what instead."""
    what, why, instead = _WHY[name]
    raise BeyondSecondMoments(f"{what} cannot be fitted to a release: {why}. Instead: {instead}")


def poisson(*_: Any, **__: Any) -> NoReturn:
    """A Poisson regression is not to be had from second moments: `BeyondSecondMoments` says why, and what to use instead.

    Parameters
    ----------
    *_, **__
        Whatever is asked: it is refused.

    Raises
    ------
    BeyondSecondMoments
        Always. `fit.rates` is nearest to it.

    Examples
    --------
    >>> import trimask
    >>> try:
    ...     trimask.fit.poisson()
    ... except trimask.errors.BeyondSecondMoments as error:
    ...     "fit.rates" in str(error)
    True
    """
    refuse("poisson")


def quantile(*_: Any, **__: Any) -> NoReturn:
    """A quantile regression is not to be had from second moments: `BeyondSecondMoments` says why, and what to use instead.

    Parameters
    ----------
    *_, **__
        Whatever is asked: it is refused.

    Raises
    ------
    BeyondSecondMoments
        Always. `fit.quantiles` is nearest to it.

    Examples
    --------
    >>> import trimask
    >>> try:
    ...     trimask.fit.quantile()
    ... except trimask.errors.BeyondSecondMoments as error:
    ...     "fit.quantiles" in str(error)
    True
    """
    refuse("quantile")


def cox(*_: Any, **__: Any) -> NoReturn:
    """A Cox regression is not to be had from second moments: `BeyondSecondMoments` says why, and what to use instead.

    Parameters
    ----------
    *_, **__
        Whatever is asked: it is refused.

    Raises
    ------
    BeyondSecondMoments
        Always. `fit.survival` is nearest to it.

    Examples
    --------
    >>> import trimask
    >>> try:
    ...     trimask.fit.cox()
    ... except trimask.errors.BeyondSecondMoments as error:
    ...     "fit.survival" in str(error)
    True
    """
    refuse("cox")
