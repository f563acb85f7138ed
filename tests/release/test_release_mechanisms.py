"""What the collector draws has the law it says, from the factor alone; what cannot be asked is refused before it is paid."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

from trimask_core.errors import ParameterError, Refused
from trimask_core.schema import Attribute, Schema
from trimask_core.study import Budget, Protection, Study
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector.releases.columns import refuse_collinear, select
from trimask_server.collector.releases.mechanisms import plan_release, price_of
from trimask_server.collector.releases.plan import Plan
from trimask_server.protocol.accounting import Price
from trimask_theory import gdp, least_squares, local_noise, pca, projection, record

Matrix = NDArray[np.float64]
SCHEMA = Schema(
    (
        Attribute("age", "integer", 20, 80),
        Attribute("dose", "continuous", 0, 5),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    )
)
ROWS = 300
PRICE = Price(1.0, 1e-6)
DRAWS = 4000


@pytest.fixture(scope="module")
def study(make_study: Any) -> Study:
    norm = SCHEMA.row_norm
    found: Study = make_study(
        schema=SCHEMA, sigma=0.0, protection=Protection(norm, 0.0, "exact", budget=Budget(9.0, 1e-3, 9.0))
    ).study
    return found


@pytest.fixture(scope="module")
def rows(study: Study) -> Matrix:
    rng = np.random.default_rng(8)
    # The dose goes with age, so that a fit under too little or too much regularisation lands elsewhere.
    people = []
    for _ in range(ROWS):
        age = int(rng.integers(20, 81))
        people.append(
            {"age": age, "dose": 1 + (age - 20) / 20 + float(rng.uniform(0, 1)), "smoker": bool(rng.integers(2)),
             "region": str(rng.choice(("north", "south", "west")))}
        )  # fmt: skip
    return np.array([study.schema.encode(answers) for answers in people])


@pytest.fixture(scope="module")
def factor(rows: Matrix) -> Matrix:
    """Any factor with X^T X will do: this one is turned by a random rotation, as masked data are."""
    turn = np.linalg.qr(np.random.default_rng(9).standard_normal((ROWS, ROWS)))[0]
    return np.asarray(np.linalg.qr(turn @ rows, mode="r"))


def plan(study: Study, price: Price = PRICE, **mechanism: Any) -> Plan:
    return plan_release(study, ROWS, pb.AskReleaseRequest(**mechanism), price)


def draws(found: Plan, factor: Matrix, name: str, seed: int, count: int = DRAWS) -> Matrix:
    rng = np.random.default_rng(seed)
    return np.array([found.draw(factor, rng).values[name] for _ in range(count)])


def check_law(found: Matrix, mean: Matrix, covariance: Matrix) -> None:
    """Mean and covariance of vectors within 5 standard deviations of each whitened number.

    d + d (d + 1)/2 checks of probability 6e-7 (normal; the squares' tails are a little heavier, hence 6 there): for the
    d <= 6 used here, a false failure below 2e-5.
    """
    white = np.linalg.solve(np.linalg.cholesky(covariance), (found - mean).T)
    count = white.shape[1]
    assert (np.abs(white.mean(axis=1)) <= 5 / math.sqrt(count)).all()
    second = white @ white.T / count
    allowed = 6 * np.sqrt((1 + np.eye(len(white))) / count)
    assert (np.abs(second - np.eye(len(white))) <= allowed).all()


def sums(method: int, *columns: str) -> dict[str, Any]:
    return {"sum": pb.SumMechanism(columns=columns, method=method)}  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [pb.SUM_METHOD_GAUSSIAN, pb.SUM_METHOD_ELLIPTICAL])
@pytest.mark.parametrize("price", [PRICE, Price(mu=0.7)])
def test_sums_are_exact_plus_the_stated_noise(
    study: Study, rows: Matrix, factor: Matrix, method: int, price: Price
) -> None:
    found = plan(study, price, **sums(method, "dose", "age", "region_west"))
    ranges = np.array([5.0, 60.0, 1.0])
    scale = 1 / price.mu if price.mu else local_noise.calibrate(1.0, 1e-6).sigma
    if method == pb.SUM_METHOD_GAUSSIAN:
        sd = np.full(3, scale * np.linalg.norm(ranges))
    else:
        sd = scale * np.sqrt(ranges * ranges.sum())
    assert found.parameters["noise"] == pytest.approx(sd, rel=1e-5)  # the grid's rounding is in it
    original = np.array([[2.5, 50.0, 0.0]]) + rows[:, [2, 1, 6]] * [2.5, 30.0, 1.0]
    check_law(draws(found, factor, "sum", 1), original.sum(axis=0), np.diag(sd**2))
    guarantee = found.draw(factor, np.random.default_rng(0)).guarantee
    assert (guarantee.neighbours.relation, guarantee.basis) == ("record", "proved")
    assert (guarantee.epsilon, guarantee.delta) == (price.epsilon, price.delta)
    assert guarantee.mu == pytest.approx(1 / scale)


def test_all_columns_are_summed_when_none_is_named(study: Study) -> None:
    assert plan(study, **sums(pb.SUM_METHOD_GAUSSIAN)).parameters["columns"] == [
        "age", "dose", "smoker", "region_north", "region_south", "region_west",
    ]  # fmt: skip


def test_projection_has_the_covariance_of_the_data_and_the_noise(
    study: Study, rows: Matrix, factor: Matrix
) -> None:
    found = plan(
        study, projection=pb.ProjectionMechanism(columns=["one", "age", "dose"], reduced_dimension=2)
    )
    sigma = found.parameters["largest_sigma"]
    norm = select(study, ["one", "age", "dose"]).row_norm
    assert sigma == projection.calibrate(*record.one_step(1.0, 1e-6), 2, norm, "sharp").sigma
    chosen = rows[:, [0, 1, 2]]
    covariance = chosen.T @ chosen + sigma**2 * np.eye(3)
    values = draws(found, factor, "projection", 2)
    check_law(values[:, :, 0], np.zeros(3), covariance)
    check_law(values[:, :, 1], np.zeros(3), covariance)
    assert abs(np.mean(values[:, 0, 0] * values[:, 0, 1])) <= 5 * covariance[0, 0] / math.sqrt(DRAWS)


def test_m_ls_is_drawn_around_the_regularised_solution(study: Study, rows: Matrix, factor: Matrix) -> None:
    asked = pb.LeastSquaresMechanism(
        response="dose",
        features=["one", "age", "smoker"],
        method=pb.LEAST_SQUARES_METHOD_LS,
        reduced_dimension=30,
    )
    found = plan(study, least_squares=asked)
    norm = select(study, ["one", "age", "smoker", "dose"]).row_norm
    sigma = least_squares.calibrate(*record.one_step(1.0, 1e-6), 30, 3, norm, "sharp").sigma
    assert found.parameters["largest_sigma"] == sigma
    chosen = rows[:, [0, 1, 3, 2]]
    gram = chosen.T @ chosen + sigma**2 * np.eye(4)
    solution = np.linalg.solve(gram[:3, :3], gram[:3, 3])
    residual = gram[3, 3] - gram[3, :3] @ solution
    check_law(draws(found, factor, "coefficients", 3), solution, residual / 30 * np.linalg.inv(gram[:3, :3]))


def test_m_als_has_the_moments_of_a_gaussian_sketch(study: Study, rows: Matrix, factor: Matrix) -> None:
    """A sketch of r rows is unbiased with covariance |e|^2 (B'B)^{-1}/(r - d - 1); at r = 60 nearly normal."""
    asked = pb.LeastSquaresMechanism(
        response="dose", features=["one", "age"], method=pb.LEAST_SQUARES_METHOD_ALS, reduced_dimension=60
    )
    found = plan(study, least_squares=asked)
    chosen = rows[:, [0, 1, 2]]
    gram = chosen.T @ chosen + found.parameters["largest_sigma"] ** 2 * np.eye(3)
    solution = np.linalg.solve(gram[:2, :2], gram[:2, 2])
    residual = gram[2, 2] - gram[2, :2] @ solution
    check_law(draws(found, factor, "coefficients", 4), solution, residual / 57 * np.linalg.inv(gram[:2, :2]))
    assert found.draw(factor, np.random.default_rng(0)).guarantee.basis == "asymptotic"


def test_the_noisy_gram_matrix(study: Study, rows: Matrix, factor: Matrix) -> None:
    asked = pb.LeastSquaresMechanism(
        response="dose", features=["one", "age"], method=pb.LEAST_SQUARES_METHOD_NOISY_GRAM
    )
    found = plan(study, Price(mu=0.5), least_squares=asked)
    sigma = found.parameters["sigma"]
    assert sigma == pytest.approx(math.sqrt(2) * 3 / 0.5, rel=1e-5)
    chosen = rows[:, [0, 1, 2]]
    upper = np.triu_indices(3)
    values = draws(found, factor, "gram", 5)[:, upper[0], upper[1]]
    variance = np.where(upper[0] == upper[1], sigma**2, sigma**2 / 2)
    check_law(values, (chosen.T @ chosen)[upper], np.diag(variance))
    assert found.draw(factor, np.random.default_rng(0)).guarantee.mu == pytest.approx(0.5)


def test_a_floor_takes_noise_away_and_its_price_from_the_mechanism(study: Study, factor: Matrix) -> None:
    """With the data 1,000 times as many, a fifth of the price finds a floor under which no noise is needed."""

    def asked(share: float) -> pb.ProjectionMechanism:
        return pb.ProjectionMechanism(columns=["one", "age", "dose"], reduced_dimension=2, floor_share=share)

    without, with_floor = plan(study, projection=asked(0.0)), plan(study, projection=asked(0.2))
    assert with_floor.parameters["largest_sigma"] > without.parameters["largest_sigma"]
    large = factor * math.sqrt(1000)
    sigmas = [with_floor.draw(large, np.random.default_rng(i)).values["sigma"] for i in range(20)]
    assert sigmas == [0.0] * 20
    small = [with_floor.draw(factor * 0.1, np.random.default_rng(i)).values["sigma"] for i in range(20)]
    assert small == [with_floor.parameters["largest_sigma"]] * 20
    stated = with_floor.draw(large, np.random.default_rng(0)).guarantee
    assert (stated.epsilon, stated.delta) == (1.0, 1e-6)
    assert "floor" in stated.because


def exponential(k: int, *columns: str) -> dict[str, Any]:
    asked = pb.PrincipalComponentsMechanism(
        columns=columns, components=k, method=pb.PRINCIPAL_COMPONENTS_METHOD_EXPONENTIAL
    )
    return {"principal_components": asked}


def test_one_component_has_the_exponential_law(study: Study, rows: Matrix, factor: Matrix) -> None:
    """E v'Gv against the integral over the circle; 4,000 draws, 5 standard deviations: false failure 6e-7."""
    price = Price(0.05, 0.0)
    found = plan(study, price, **exponential(1, "age", "dose"))
    norm = select(study, ["age", "dose"]).row_norm
    gram = rows[:, [1, 2]].T @ rows[:, [1, 2]]

    def utility(angle: float) -> float:
        v = np.array([math.cos(angle), math.sin(angle)])
        return float(v @ gram @ v)

    weight: Callable[[float], float] = lambda angle: math.exp(0.05 / (2 * norm**2) * utility(angle))  # noqa: E731
    total = quad(weight, 0, math.pi)[0]
    mean = quad(lambda a: weight(a) * utility(a), 0, math.pi)[0] / total
    square = quad(lambda a: weight(a) * utility(a) ** 2, 0, math.pi)[0] / total
    frames = draws(found, factor, "components", 6)[:, :, 0]
    values = np.einsum("ni,ij,nj->n", frames, gram, frames)
    assert abs(values.mean() - mean) <= 5 * math.sqrt((square - mean**2) / DRAWS)


def test_the_exponential_law_changes_by_at_most_epsilon(study: Study, rows: Matrix) -> None:
    """The density at every angle, for a record replaced by the one furthest from it in utility."""
    epsilon, norm = 0.8, math.sqrt(2)
    one, other = rows[:, [1, 2]].copy(), rows[:, [1, 2]].copy()
    one[0], other[0] = (1.0, 1.0), (1.0, -1.0)
    angles = np.linspace(0, math.pi, 2001)
    circle = np.array([np.cos(angles), np.sin(angles)])
    logs = []
    for data in (one, other):
        utility = np.einsum("in,ij,jn->n", circle, data.T @ data, circle) * epsilon / (2 * norm**2)
        logs.append(utility - np.log(np.mean(np.exp(utility - utility.max()))) - utility.max())
    worst = np.abs(logs[0] - logs[1]).max()
    assert 0.4 * epsilon < worst <= epsilon


def test_two_components_are_a_frame_and_say_how_they_were_drawn(study: Study, factor: Matrix) -> None:
    found = plan(study, Price(1.0, 0.0), **exponential(2, "one", "age", "dose", "smoker"))
    drawn = found.draw(factor, np.random.default_rng(0))
    frame = np.array(drawn.values["components"])
    assert frame.T @ frame == pytest.approx(np.eye(2), abs=1e-12)
    assert drawn.guarantee.basis == "asymptotic"
    assert "Gibbs" in drawn.guarantee.because


def adaptive(k: int, share: float = 0.2) -> dict[str, Any]:
    asked = pb.PrincipalComponentsMechanism(
        components=k, method=pb.PRINCIPAL_COMPONENTS_METHOD_ADAPTIVE, test_share=share
    )
    return {"principal_components": asked}


def test_adaptive_components_come_or_are_not_achievable(study: Study, factor: Matrix) -> None:
    found = plan(study, Price(mu=8.0), **adaptive(1)).draw(factor, np.random.default_rng(1))
    leading = np.linalg.eigh(factor.T @ factor)[1][:, -1]
    frame = np.array(found.values["components"])[:, 0]
    assert abs(leading @ frame) > 0.8
    assert found.guarantee.mu == 8.0
    assert found.guarantee.basis == "asymptotic"
    none = plan(study, Price(mu=1e-3), **adaptive(2)).draw(factor, np.random.default_rng(1))
    assert (none.values["components"], none.values["achievable"]) == (None, False)


def test_adaptive_components_can_be_paid_with_epsilon(study: Study, factor: Matrix) -> None:
    stated = plan(study, PRICE, **adaptive(1)).draw(factor, np.random.default_rng(1)).guarantee
    assert (stated.epsilon, stated.delta, stated.mu) == (1.0, 1e-6, gdp.mu(1.0, 1e-6))


def test_adaptive_components_share_half_of_mu(
    study: Study, factor: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper's neighbours are one step, a replaced record two: both parts together have mu/2."""
    given: list[float] = []
    real = pca.adaptive

    def adaptive_seen(spectrum: Any, test: float, target: float, normals: Any) -> Any:
        given.extend((test, target))
        return real(spectrum, test, target, normals)

    monkeypatch.setattr(pca, "adaptive", adaptive_seen)
    plan(study, Price(mu=3.0), **adaptive(1, 0.36)).draw(factor, np.random.default_rng(1))
    assert given == pytest.approx([1.5 * 0.6, 1.5 * 0.8])


def test_without_a_gap_components_are_not_achievable_and_nothing_fails(study: Study) -> None:
    """A question that failed on its data would be paid for without an answer, and would tell about them."""
    flat = math.sqrt(ROWS / 10) * np.eye(study.attributes)
    found = plan(study, Price(mu=8.0), **adaptive(1)).draw(flat, np.random.default_rng(1))
    assert found.values == {"components": None, "beta": None, "achievable": False}
    assert (found.guarantee.mu, found.guarantee.basis) == (8.0, "asymptotic")


def test_low_digits_of_projections_and_fits_are_not_published(study: Study, factor: Matrix) -> None:
    """Whole multiples of a public power of two: 2^-20 of the least deviation an answer can have, or a little less."""
    norm, r = select(study, ["one", "age", "dose"]).row_norm, 9
    sketch = plan(
        study, projection=pb.ProjectionMechanism(columns=["one", "age", "dose"], reduced_dimension=2)
    )
    sigma = sketch.parameters["largest_sigma"]
    ls = plan(study, **fit())
    least = ls.parameters["largest_sigma"]
    least /= math.sqrt(r * (ROWS * norm**2 + least**2))
    for found, name, scale in ((sketch, "projection", sigma), (ls, "coefficients", least)):
        step = 2.0 ** (math.floor(math.log2(scale)) - 20)
        values = draws(found, factor, name, 7, 5) / step
        assert (values == np.rint(values)).all()
        assert np.abs(values).max() > 1e3


def fit(**changes: Any) -> dict[str, Any]:
    values = {
        "response": "dose",
        "features": ["one", "age"],
        "method": pb.LEAST_SQUARES_METHOD_LS,
        "reduced_dimension": 9,
    }
    return {"least_squares": pb.LeastSquaresMechanism(**{**values, **changes})}


REGIONS = ["region_north", "region_south", "region_west"]


@pytest.mark.parametrize(
    ("reason", "mechanism"),
    [
        ("malformed", {}),
        ("unknown_column", sums(1, "agee")),
        ("unknown_column", fit(features=["one", "height"])),
        ("unknown_column", fit(response="one_")),
        ("collinear_columns", sums(1, "age", "age")),
        ("collinear_columns", sums(1, "one")),
        ("collinear_columns", fit(features=["one", "age", "dose"])),
        ("collinear_columns", fit(features=["one", *REGIONS])),
        ("collinear_columns", fit(features=["one", *REGIONS[:2]], response=REGIONS[2])),
        ("not_declared", sums(3)),
    ],
)
def test_questions_that_are_refused(study: Study, reason: str, mechanism: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        plan(study, **mechanism)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("price", "mechanism"),
    [
        (PRICE, sums(0)), (PRICE, sums(9)), (Price(1.0, 0.0), sums(1)), (PRICE, fit(features=[])), (PRICE, fit(method=0)),
        (PRICE, fit(reduced_dimension=0)), (PRICE, fit(method=2, reduced_dimension=2)),
        (PRICE, fit(reduced_dimension=1 << 31)), (PRICE, fit(floor_share=1.0)), (PRICE, fit(floor_share=-0.1)),
        (PRICE, fit(floor_share=math.nan)), (PRICE, {"projection": pb.ProjectionMechanism()}),
        (PRICE, {"projection": pb.ProjectionMechanism(reduced_dimension=1 << 20)}), (PRICE, adaptive(0)),
        (PRICE, adaptive(7)), (PRICE, adaptive(1, 0.0)), (PRICE, adaptive(1, math.nan)),
        (PRICE, fit(method=3)), (PRICE, fit(method=3, reduced_dimension=0, floor_share=0.1)),
        (Price(1.0, 0.0), {"principal_components": pb.PrincipalComponentsMechanism(components=1, method=1, test_share=0.1)}),
        (PRICE, {"principal_components": pb.PrincipalComponentsMechanism(components=1)}), (PRICE, exponential(1)),
    ],
    ids=str,
)  # fmt: skip
def test_parameters_out_of_range(study: Study, price: Price, mechanism: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        plan(study, price, **mechanism)


@pytest.mark.parametrize(
    "mechanism", [fit(), {"projection": pb.ProjectionMechanism(reduced_dimension=1)}, exponential(1)]
)
def test_what_has_no_gaussian_guarantee_is_not_paid_with_mu(study: Study, mechanism: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        plan(study, Price(mu=1.0), **mechanism)
    assert caught.value.reason == "pay_with_epsilon"


def test_a_study_without_ones_has_no_sums(make_study: Any) -> None:
    schema = Schema((Attribute("x", "binary"), Attribute("y", "binary")), ones=False)
    with pytest.raises(Refused) as caught:
        plan(make_study(schema=schema, sigma=0.0).study, **sums(1))
    assert caught.value.reason == "not_declared"


def test_row_norms_of_selections(study: Study) -> None:
    """A one-hot group counts once, however many of its levels are asked for; rounding is a hair on top."""
    for names, square in ((["age"], 1), (REGIONS, 1), (["one", "age", *REGIONS[:2]], 3)):
        found = select(study, names)
        assert math.sqrt(square) < found.row_norm < math.sqrt(square) + 1e-5
    refuse_collinear(study, ["one", *REGIONS[:2]])
    refuse_collinear(study, REGIONS)


def test_prices_on_the_wire() -> None:
    assert price_of(pb.AskReleaseRequest(gaussian=pb.GaussianPrice(mu=0.5))) == Price(mu=0.5)
    assert price_of(pb.AskReleaseRequest(approximate=pb.ApproximatePrice(epsilon=1))) == Price(1.0, 0.0)
    with pytest.raises(ParameterError):
        price_of(pb.AskReleaseRequest())
