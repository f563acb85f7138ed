"""Other accountants, where they are installed, answer what ours does."""

from __future__ import annotations

import math

import pytest

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Neighbours
from trimask_theory.accounting import GaussianMechanism, MaskedRelease, Mechanism, Projection, export
from trimask_theory.gaussian import gdp
from trimask_theory.masking import masked_noise

GAUSSIAN = GaussianMechanism(0.3, Neighbours("record"))
MASKED = MaskedRelease(masked_noise.calibrate(0.5, 1e-6, 500, 4).sigma, 500, 4)
SKETCH = Projection(6.0, 4)
EACH = pytest.mark.parametrize("mechanism", [GAUSSIAN, MASKED, SKETCH], ids=lambda each: each.family)


@EACH
def test_dp_accounting_agrees(mechanism: Mechanism) -> None:
    pytest.importorskip("dp_accounting", reason="the extra accountants is not installed")
    exported = export.to_dp_accounting(mechanism, mechanism.spread / 200)
    for epsilon in (0.5 * mechanism.spread, 3 * mechanism.spread):
        ours = mechanism.delta(epsilon)
        assert ours * (1 - 1e-6) <= exported.get_delta_for_epsilon(epsilon) <= ours * 1.001
    ours = mechanism.repeated(20).epsilon(1e-6)
    assert exported.self_compose(20).get_epsilon_for_delta(1e-6) == pytest.approx(ours, rel=1e-4)


@EACH
def test_prv_accountant_agrees(mechanism: Mechanism) -> None:
    prv = pytest.importorskip("prv_accountant", reason="the extra accountants is not installed")
    ours = mechanism.repeated(20).epsilon(1e-6)
    bounds = []
    for variable in export.to_prv_accountant(mechanism):
        accountant = prv.PRVAccountant(
            prvs=[variable], max_self_compositions=[20], eps_error=0.01, delta_error=1e-9
        )
        bounds.append(accountant.compute_epsilon(1e-6, [20]))
    lower, _, upper = max(bounds)
    assert lower <= ours <= upper


def test_the_exported_distribution_of_each_direction() -> None:
    forward, backward = export.loss_distributions(SKETCH, SKETCH.spread / 100)
    assert forward.delta(0.3) == pytest.approx(SKETCH.delta(0.3), rel=1e-3)
    assert backward.delta(0.3) < forward.delta(0.3)
    assert math.fsum(forward.mass) == pytest.approx(1.0)
    (only,) = export.loss_distributions(GAUSSIAN, 0.003)
    assert only.mirrored().delta(0.5) == pytest.approx(gdp.delta(0.5, 0.3), rel=1e-3)


def test_a_missing_accountant_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(export, "import_module", missing)
    with pytest.raises(ParameterError, match="dp_accounting is missing"):
        export.to_dp_accounting(GAUSSIAN)
