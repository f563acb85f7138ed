"""Records made from a release: they behave like ordinary rows, belong to nobody, and are marked so.

    synthetic = trimask.synthesize(dataset, 10_000)
    synthetic.frame          # a pandas frame, with a column `synthetic`
    print(synthetic.report)  # how far its tables, correlations and coefficients are from the release's

Free post-processing: whatever is made of a release has the release's guarantee. What is in no two-way table and no second
moment of the study is not in the records either: higher interactions, and the shape of a number within its cells, are the
model's.
"""

from __future__ import annotations

from trimask.synthetic.synthesis import Synthetic, UtilityReport, synthesize

__all__ = ["Synthetic", "UtilityReport", "synthesize"]
