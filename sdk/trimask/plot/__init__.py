"""Pictures, one call each. matplotlib is imported when the first one is drawn.

trimask.plot.coefficients(fit, naive)                  # coefficients with sampling and privacy intervals
trimask.plot.scree(trimask.fit.pca(dataset))           # eigenvalues over the noise floor
trimask.plot.histogram(trimask.fit.histogram(dataset, "age_group"))     # people an interval, with what noise adds
trimask.plot.survival(trimask.fit.survival(dataset, "years", "died"))   # a life table's curve
trimask.plot.precision(epsilon=1, delta=1e-6, attributes=6)    # before a study: error against rows
"""

from __future__ import annotations

from trimask.plot._figures import coefficients, histogram, precision, scree, survival

__all__ = ["coefficients", "histogram", "precision", "scree", "survival"]
