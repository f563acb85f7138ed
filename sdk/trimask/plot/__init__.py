"""Pictures, one call each. matplotlib is imported when the first one is drawn.

trimask.plot.coefficients(fit, naive)                  # coefficients with sampling and privacy intervals
trimask.plot.scree(trimask.fit.pca(dataset))           # eigenvalues over the noise floor
trimask.plot.precision(epsilon=1, delta=1e-6, attributes=6)    # before a study: error against rows
"""

from __future__ import annotations

from trimask.plot._forest import coefficients
from trimask.plot._precision import precision
from trimask.plot._scree import scree

__all__ = ["coefficients", "precision", "scree"]
