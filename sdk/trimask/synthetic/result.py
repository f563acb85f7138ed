"""Synthetic records, marked as such in their name, their metadata and a column."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trimask.citation import bibtex
from trimask.export import write_notes
from trimask.moments import Moments
from trimask.shown import Shown
from trimask.synthetic.report import UtilityReport

if TYPE_CHECKING:
    import pandas as pd

    from trimask.manifest import Manifest
    from trimask_core.guarantee import Guarantee

__all__ = ["MARK", "NOBODY", "Synthetic"]

MARK = "synthetic"
NOBODY = (
    "SYNTHETIC records: drawn from a model that was fitted to a noisy release. No record is anybody's. Standard errors that "
    "a program computes from them leave out the noise of the release and the sampling of its people."
)


@dataclass(frozen=True, eq=False)
class Synthetic(Shown):
    """Records, the release's moments they were made from, and how far they are from it."""

    frame: pd.DataFrame = field(repr=False)
    moments: Moments = field(repr=False)
    report: UtilityReport = field(repr=False)
    manifest: Manifest | None = field(default=None, repr=False)

    @property
    def guarantee(self) -> Guarantee | None:
        """The release's: post-processing costs nothing and adds nothing."""
        return None if self.moments.protection is None else self.moments.protection.public

    @property
    def weighting(self) -> str:
        """How to count the records where people of the release count by weights; else empty."""
        if not self.moments.weighted_by:
            return ""
        return (
            f"People of the release count by their weights ({self.moments.weighted_by}), and the records stand for the "
            "weighted people, each for as many as any other. Do not weight them again."
        )

    def cite(self) -> str:
        """BibTeX of the dataset, with a note that these are synthetic records made from it."""
        if self.manifest is None:
            return f"% {NOBODY} Made from {self.moments.label}. Guarantee: {self.guarantee}"
        return bibtex(self.manifest, "Synthetic records made from this dataset, nobody's answers.")

    def to_csv(self, path: str | Path) -> Path:
        """Write them; the file's name says synthetic (it is added where it does not), and NAME.json says the rest."""
        path = Path(path)
        if MARK not in path.name.lower():
            path = path.with_name(f"{path.stem}.{MARK}{path.suffix}")
        self.frame.to_csv(path, index=False)
        write_notes(path, {str(name): str(text) for name, text in self.frame.attrs.items()})
        return path

    def __str__(self) -> str:
        made = f"Made from {self.moments.label}: {len(self.frame):,} records\nGuarantee: {self.guarantee}"
        return "\n".join([NOBODY, *([self.weighting] if self.weighting else []), made, "", str(self.report)])

    def __repr__(self) -> str:
        return f"<Synthetic: {len(self.frame):,} records, nobody's, made from {self.moments.label}>"
