"""Models that second moments cannot give, each with the reason and with what to use instead."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from trimask.errors import BeyondSecondMoments, ParameterError

_YES_OR_NO = (
    "fit.linear_probability (differences in probability) or fit.crosstab (exact odds ratios of one group)"
)
_RECORDS = "by another program of trimask.synthesize(dataset).frame, whose errors are then too small"
_WHY = {
    "logit": (
        "a logistic regression",
        "but for groups its likelihood has log(1 + exp(x'b)) of every row, which no second moment determines",
        (
            "fit.logit(dataset, 'y ~ C(g) + C(h)') of groups, yes-or-no answers and bins that the study declares; "
            f"{_YES_OR_NO}; or "
            "fit.logit(trimask.synthesize(dataset), formula), which fits synthetic records and says what "
            "its errors leave out"
        ),
    ),
    "probit": (
        "a probit regression",
        "its likelihood has the normal distribution function at x'b of every row, which no second moment determines",
        f"{_YES_OR_NO}; or a probit regression {_RECORDS}",
    ),
    "binomial": (
        "a binomial regression with this link",
        "its likelihood has a function of x'b of every row, which no second moment determines",
        f"{_YES_OR_NO}; or such a regression {_RECORDS}",
    ),
    "poisson": (
        "a Poisson regression",
        "its likelihood has exp(x'b) of every row, which no second moment determines",
        (
            "fit.rates (rates over time at risk, by group), fit.ols of a logarithm that the study declares, or a Poisson "
            f"regression {_RECORDS}"
        ),
    ),
    "negative_binomial": (
        "a negative binomial regression",
        "its likelihood has exp(x'b) of every row, which no second moment determines",
        (
            "fit.rates (rates over time at risk: over all people their errors assume no distribution, by group Poisson), "
            f"fit.ols of a logarithm that the study declares, or a negative binomial regression {_RECORDS}"
        ),
    ),
    "positive": (
        "a regression with a gamma, inverse Gaussian or Tweedie family",
        "its likelihood has the inverse link of x'b of every row, which no second moment determines",
        (
            "fit.ols of a logarithm that the study declares, fit.means (means by group), fit.ols of the response itself "
            f"(differences in means), or such a regression {_RECORDS}"
        ),
    ),
    "linked_gaussian": (
        "a Gaussian regression with a link that is not the identity",
        "its residuals have the inverse link of x'b of every row, which no second moment determines",
        f"fit.ols, of a response that the study declares with that transform; or such a regression {_RECORDS}",
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
    "median": (
        "a median",
        "an order of values is in no sum of products",
        'fit.quantiles of a number whose bins the study declares ([[derived]], kind = "bins"), also by group',
    ),
    "kaplan_meier": (
        "a Kaplan-Meier curve",
        "it needs events and people at risk by time, which a release has only where the study declares bins",
        (
            'fit.survival of a time whose bins the study declares ([[derived]], kind = "bins"); with a bin for every '
            'time and leave="end" it is the Kaplan-Meier estimate'
        ),
    ),
}
ALIASES = {
    "logistic": "logit", "probit": "probit", "logistic_regression": "logit", "poisson_regression": "poisson",
    "negative_binomial": "negative_binomial", "quantreg": "quantile", "median": "median", "coxph": "cox",
    "phreg": "cox", "kaplan_meier": "kaplan_meier", "poisson": "poisson", "quantile": "quantile", "cox": "cox",
}  # fmt: skip
INSTEAD = {
    "ttest": "fit.means(dataset, y, by=group) has the differences with their t tests, by Welch where products are declared",
    "anova": "fit.means(dataset, y, by=group).equal is the F test of equal means; fit.ols(...).f_test('C(g)') of a model",
    "mixedlm": "which rows belong together is in no release; a group of few levels can be a regressor, C(group)",
    "corr": "fit.correlations(dataset, columns) has them with intervals, and matrix()",
    "wls": "fit.weighted(dataset, by, {level: weight}) makes a source for every fit",
    "chisquare": "fit.crosstab(dataset, rows, columns).chi2 is the test of independence",
}
INSTEAD |= {
    "ttest_ind": INSTEAD["ttest"],
    "t_test": INSTEAD["ttest"],
    "anova_lm": INSTEAD["anova"],
    "lmer": INSTEAD["mixedlm"],
}
_FAMILIES = {
    "gaussian": "gaussian", "normal": "gaussian", "binomial": "binomial", "quasibinomial": "binomial",
    "bernoulli": "binomial", "poisson": "poisson", "quasipoisson": "poisson", "negativebinomial": "negative_binomial",
    "gamma": "positive", "inversegaussian": "positive", "tweedie": "positive",
}  # fmt: skip


def refuse(name: str) -> NoReturn:
    """Say why, and what instead."""
    what, why, instead = _WHY[name]
    raise BeyondSecondMoments(f"{what} cannot be fitted to a release: {why}. Instead: {instead}")


def glm(*_: Any, family: Any = None, **__: Any) -> NoReturn:
    """No generalised linear model but least squares is in second moments: the refusal is about the family asked for.

    Parameters
    ----------
    *_, **__
        Whatever is asked: it is refused.
    family : str or object
        A name ("binomial", "poisson", "gamma", ...), or a family of statsmodels, with its link.

    Raises
    ------
    BeyondSecondMoments
        Why this family cannot be had, and what to use instead.
    ParameterError
        For the Gaussian family with the identity link, which is `fit.ols`; without a family; for one that is not known.

    Examples
    --------
    >>> import trimask
    >>> try:
    ...     trimask.fit.glm(trimask.example(), "smoker ~ age", family="poisson")
    ... except trimask.errors.BeyondSecondMoments as error:
    ...     print(str(error)[:50])
    a Poisson regression cannot be fitted to a release
    """
    name, link = _family_and_link(family)
    kind = _FAMILIES.get(name)
    if kind is None:
        known = "binomial, poisson, negative_binomial, gamma, inverse_gaussian or tweedie"
        raise ParameterError("family", f"{known} (the Gaussian family is least squares: fit.ols)", family)
    if kind == "gaussian" and link in ("", "identity"):
        raise ParameterError(
            "family", "another than the Gaussian, which is least squares: call fit.ols(dataset, formula)"
        )
    if kind == "gaussian":
        refuse("linked_gaussian")
    if kind == "binomial":
        refuse({"": "logit", "logit": "logit", "probit": "probit"}.get(link, "binomial"))
    refuse(kind)


def _family_and_link(family: Any) -> tuple[str, str]:
    """Both in small letters: of a name such as R's `binomial(link = "probit")`, a class, or an object with a link."""
    if isinstance(family, str):
        name, _, rest = family.partition("(")
        words = [word for word in re.findall(r"\w+", rest.lower()) if word != "link"]
        link = words[0] if words else ""
    else:
        bare = isinstance(family, type)
        name = family.__name__ if bare else type(family).__name__
        link = "" if bare or not hasattr(family, "link") else type(family.link).__name__.lower()
    return re.sub(r"[^a-z]", "", name.lower()), link
