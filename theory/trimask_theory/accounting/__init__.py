"""What releases cost: one `Mechanism` a family, its curve, and what several cost together (`compose`)."""

from trimask_theory.accounting.mechanism import ApproximateDP, Composition, GaussianMechanism, Mechanism
from trimask_theory.accounting.studies import MaskedRelease, Projection

__all__ = ["ApproximateDP", "Composition", "GaussianMechanism", "MaskedRelease", "Mechanism", "Projection"]
