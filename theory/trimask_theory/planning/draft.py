"""The parts of a study that do not depend on its suite."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.basics.errors import StudyError
from trimask_core.study.definition import Study, SuiteSettings
from trimask_core.study.guarantee import Protection
from trimask_core.study.party import Party
from trimask_core.study.weight import Weight
from trimask_theory.planning.definition import StudyDefinition


@dataclass(frozen=True)
class Draft:
    """A definition with its parties and its day."""

    definition: StudyDefinition
    collector: Party
    right: tuple[Party, ...]
    left: tuple[Party, ...]
    tls_roots: str
    now_ms: int
    owner_key: bytes = b""

    def study(
        self,
        suite: SuiteSettings,
        protection: Protection,
        weight: Weight | None = None,
    ) -> Study:
        """The study with these settings of its suite; `weight` is the definition's unless given."""
        definition, plan = self.definition, self.definition.collection
        signer = plan.admission_signer or ("owner" if plan.admission == "invited" else "")
        if not self.owner_key:
            raise StudyError(
                "a study names the key with which its owner orders it closed, and none was given: --owner DIR"
            )
        return Study(
            title=definition.title,
            purpose=definition.purpose,
            contact=definition.contact,
            created_ms=self.now_ms,
            schema=definition.schema,
            protection=protection,
            suite=suite,
            release_rows=plan.release_rows,
            collector=self.collector,
            right=self.right,
            left=self.left,
            tls_roots=self.tls_roots,
            admission=plan.admission,
            admission_signer=signer,
            owner_key=self.owner_key.hex(),
            reminders=plan.reminders,
            access=plan.access,
            sealing=plan.sealing,
            licence=definition.licence,
            web=definition.web,
            form=None if definition.form is None else definition.form.created(self.now_ms),
            weight=definition.weight if weight is None else weight,
        )
