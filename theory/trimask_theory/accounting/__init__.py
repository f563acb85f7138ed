"""What releases cost: one `Mechanism` a family, its curve, and what several cost together (`compose`)."""

from trimask_theory.accounting.families import (
    LocalNoise,
    MaskedRelease,
    NoisyGram,
    PrivateComponents,
    Projection,
    VectorSum,
)
from trimask_theory.accounting.mechanism import ApproximateDP, Composition, GaussianMechanism, Mechanism

__all__ = [
    "ApproximateDP",
    "Composition",
    "GaussianMechanism",
    "LocalNoise",
    "MaskedRelease",
    "Mechanism",
    "NoisyGram",
    "PrivateComponents",
    "Projection",
    "VectorSum",
]
