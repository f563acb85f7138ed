"""delta of a masked release enclosed in ball arithmetic: ten settings, record and unit neighbours, how wide, how long.

`python -m bench.theory_certified` prints tables, of which docs/theory/sharp-calibration.md#enclosure has some lines; with a
file name, it writes them as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from trimask_theory.masking import masked_noise
from trimask_theory.masking.unit_enclosure import LARGEST_OF_CELLS

__all__ = ["SETTINGS", "Setting", "measure", "settings_of"]


class Setting(NamedTuple):
    """A guarantee that is asked for."""

    epsilon: float
    delta: float
    rows: int
    attributes: int


SETTINGS = (
    Setting(0.1, 1e-2, 100, 5),
    Setting(1.0, 1e-6, 256, 6),
    Setting(1.0, 1e-6, 300, 1),
    Setting(0.1, 1e-3, 10_000, 5),
    Setting(0.5, 1e-6, 4096, 9),
    Setting(1.0, 1e-5, 20_000, 5),
    Setting(1.0, 1e-6, 20_000, 6),
    Setting(4.0, 1e-6, 1024, 9),
    Setting(8.0, 1e-11, 60, 2),
    Setting(1.0, 1e-12, 1_000_000, 10),
)


PROTECTIONS: tuple[masked_noise.Protection, ...] = ("record", "unit")


def settings_of(protect: masked_noise.Protection) -> tuple[Setting, ...]:
    """Those that can be enclosed: `unit` neighbours only up to so many rows."""
    return tuple(s for s in SETTINGS if protect == "record" or s.rows <= LARGEST_OF_CELLS)


def measure(setting: Setting, protect: masked_noise.Protection = "record") -> dict[str, Any]:
    """sigma, delta by quadrature, its enclosure and the seconds of processor time that took."""
    epsilon, delta, rows, attributes = setting
    sigma = masked_noise.calibrate(epsilon, delta, rows, attributes, protect).sigma
    value = masked_noise.delta(epsilon, sigma, rows, attributes, protect)
    start = time.process_time()
    lower, upper = masked_noise.enclosed_delta(epsilon, sigma, rows, attributes, protect)
    seconds = time.process_time() - start
    found = {"sigma": sigma, "value": value, "lower": lower, "upper": upper, "width": (upper - lower) / value}
    return setting._asdict() | {"protect": protect} | found | {"seconds": seconds}


def main(arguments: list[str]) -> int:
    """Print the tables; write JSON to the file named, if one is."""
    rows = []
    for protect in PROTECTIONS:
        print(f"{protect} neighbours\n")
        print("| ε | δ | n | p | σ | δ by quadrature | enclosed in | width / δ | seconds |")
        print("|---|---|---|---|---|---|---|---|---|")
        for setting in settings_of(protect):
            row = measure(setting, protect)
            rows.append(row)
            print(
                "| {epsilon:g} | {delta:g} | {rows:,} | {attributes} | {sigma:.5g} | {value:.6e} | "
                "[{lower:.6e}, {upper:.6e}] | {width:.4%} | {seconds:.1f} |".format(**row),
                flush=True,
            )
        print()
    if arguments:
        Path(arguments[0]).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
