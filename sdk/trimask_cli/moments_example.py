"""The blood-pressure study for the moments suite: the bundled definition with its differences."""

from __future__ import annotations

import re

__all__ = ["for_moments"]

_PRIVACY = """[privacy]
# Rows of a box of these questions have norm sqrt(7) at most, but people's are shorter: devices shrink the few that are
# longer than row_norm towards the centres, and prove it. The noise goes with row_norm^2; the release says about how many
# rows were shrunk. Centres, scales and row_norm come from what is known already, never from this study's answers.
# With one right provider honest, epsilon = 4 gives sigma = 8.17 on sums over 1,024 people.
epsilon = 4.0
delta = 1e-6
row_norm = 2.2
honest_providers = 1    # of the right providers; the release is private as long as so many add their noise as agreed

"""
_COLLECTION = """[collection]
suite = "moments"       # two right providers at least, no left ones; no answer is seen unless all of them collude
release_rows = 1024     # people published together, at least

"""
_GRIDS = {
    "bmi": "step = 0.1\ncentre = 26         # about the mean one expects\nscale = 13",
    "salt": "step = 0.1\ncentre = 9\nscale = 8",
}


def for_moments(text: str) -> str:
    """The definition with the sections and grids of the moments suite in the place of those of the rows suite."""
    text = re.sub(r"(?ms)^\[privacy\]\n.*?(?=^\[)", lambda _: _PRIVACY, text, count=1)
    text = re.sub(r"(?ms)^\[collection\]\n.*?(?=^\[)", lambda _: _COLLECTION, text, count=1)
    for name, grid in _GRIDS.items():
        text = re.sub(rf'(?m)(^name = "{name}"\n(?:^\w.*\n)*?^maximum = .*\n)', rf"\1{grid}\n", text, count=1)
    return text
