"""The rows suite when a study is shown: blocks, noise columns, masks."""

from __future__ import annotations

from typing import Any, TypeVar

from trimask_core.study.definition import Study
from trimask_terminal.suites.promises import pair_words

_T = TypeVar("_T")


def summary(study: Study) -> dict[str, Any]:
    """Its settings, JSON-ready."""
    return {
        "block_rows": study.rows.block_rows,
        "noise_columns": study.rows.noise_columns,
        "tau": study.rows.tau,
        "share_leakage": study.rows.share_leakage,
        "grid_exponent": study.rows.grid_exponent,
        "unmasking": list(study.rows.unmasking),
    }


def promises(study: Study) -> list[str]:
    """What the study promises, a sentence each."""
    protection = study.protection
    if not protection.sigma:
        return [
            (
                "NO DIFFERENTIAL PRIVACY: no noise is added. Rows are masked, but a release shows every sum "
                "of squares and products exactly, from which single people may be found out."
            )
        ]
    return _weaker_first(
        study,
        f"A release holds {study.release_rows:,} people at least, and promises {pair_words(protection.public)}.",
        f"The collector sees blocks of {study.rows.block_rows:,} in passing: {pair_words(protection.collector)}.",
    )


def duty(study: Study, role: str) -> str:
    """What the node in `role` does."""
    if role == "collector":
        words = "Your node plans blocks, pools them, publishes releases, and forgets each block once pooled."
    elif role.startswith("R"):
        words = "Your node keeps one component of every row until its block is pooled, then erases it."
    else:
        words = "Your node rotates every block by a secret mask of its own and keeps neither."
    whose = _unmasked_by(study, role)
    return words + (f" It also removes the right mask of {' and '.join(whose)}." if whose else "")


def facts(study: Study) -> list[tuple[str, str]]:
    """Headings with what there is to say."""
    protection, rows = study.protection, study.rows
    found = []
    if protection.sigma:
        found = [
            *_weaker_first(
                study,
                ("towards the public", pair_words(protection.public)),
                ("towards the collector", pair_words(protection.collector)),
            ),
            ("noise", f"sigma = {protection.sigma:.4g} on values scaled to [-1, 1] ({protection.method})"),
        ]
    columns = f"{study.attributes} + {rows.noise_columns} noise columns of scale {rows.tau:.3g}"
    leakage = (
        f"2^{rows.share_leakage.hex().split('p')[1]}"
        if _is_power(rows.share_leakage)
        else f"{rows.share_leakage:.3g}"
    )
    return [
        *found,
        ("a row", f"norm at most {protection.row_norm:.4g}; {columns}"),
        ("together", f"{rows.block_rows:,} rows masked, {study.release_rows:,} or more published"),
        ("components", f"each hides a row to mu = {leakage} Gaussian DP"),
    ]


def unmasks(study: Study, role: str) -> str:
    """Whose masks this party removes; empty if none."""
    return ", ".join(_unmasked_by(study, role))


def _weaker_first(study: Study, public: _T, collector: _T) -> list[_T]:
    """What is said of either guarantee; the public's first where they are equal or one is missing."""
    ours, theirs = study.protection.public, study.protection.collector
    weaker = ours is not None and theirs is not None and (theirs.epsilon or 0.0) > (ours.epsilon or 0.0)
    return [collector, public] if weaker else [public, collector]


def _unmasked_by(study: Study, role: str) -> list[str]:
    return [f"R{k}" for k, node in enumerate(study.rows.unmasking, 1) if node == role]


def _is_power(value: float) -> bool:
    return value.hex().startswith("0x1.0000000000000p")
