"""Every result of the five papers: where it is built, and which test shows it. Prints docs/coverage.md.

    python scripts/paper_coverage.py > docs/coverage.md

`where` is a module or an object of one, or empty where it is not built; `test` is a file and a function under tests/.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PAPERS", "Result", "document"]


class Result(NamedTuple):
    """One statement of a paper."""

    what: str
    where: str
    test: str
    remark: str = ""


_M = "trimask_theory.masking.masked_noise"
_NOISE = (
    Result(
        "settings (A), (B)",
        f"{_M}",
        "theory/test_masked_noise.py::test_every_cell_of_the_masked_noise_table",
        "Table 1, all cells",
    ),
    Result(
        "setting (C), Lemma A.4",
        "trimask_theory.papers.masked_draw",
        "theory/test_masked_draw.py::test_lemma_a_4_both_orders_have_the_exact_law_block_by_block",
        "an option of its own, of the same sigma",
    ),
    Result(
        "Lemma 2.4, first half",
        "trimask_theory.masking.simple_rules",
        "theory/test_masked_noise.py::test_theorem_sigma_is_the_root_of_g",
    ),
    Result(
        "Lemma 2.4, converse",
        "",
        "theory/test_errata.py::test_lemma_2_4_of_the_masked_noise_paper_as_printed",
        "false as printed",
    ),
    Result(
        "Theorem 3.2",
        "trimask_theory.gaussian.local_noise",
        "theory/test_local_noise.py::test_the_bounds_of_the_paper_in_their_order",
    ),
    Result(
        "Corollary 3.3, sufficient",
        "trimask_theory.gaussian.local_noise",
        "theory/test_local_noise.py::test_the_bounds_of_the_paper_in_their_order",
    ),
    Result(
        "Corollary 3.3, necessary",
        "trimask_theory.gaussian.local_noise.calibrate",
        "theory/test_local_noise.py::test_the_necessary_half_of_corollary_3_3_and_where_its_lemma_fails",
        'method "explicit"; its Lemma A.1 is false above delta = 0.0314',
    ),
    Result(
        "Theorem 3.4",
        "trimask_theory.masking.simple_rules",
        "theory/test_masked_noise.py::test_theorem_sigma_is_the_root_of_g",
    ),
    Result(
        "Corollary 3.5",
        "trimask_theory.masking.simple_rules.corollary_sigma",
        "theory/test_masked_noise.py::test_corollary_is_above_the_theorem",
    ),
    Result(
        "Lemmas 5.1, 5.2",
        "trimask_theory.masking.hypergeometric",
        "theory/test_errata.py::test_lemma_5_2_of_the_masked_noise_paper",
        "with its errata",
    ),
    Result(
        "Table 1", f"{_M}.calibrate", "theory/test_masked_noise.py::test_every_cell_of_the_masked_noise_table"
    ),
    Result(
        "block-diagonal masks",
        "trimask_theory.papers.masked_draw.calibrate",
        "theory/test_masked_draw.py::test_setting_c_and_blocks_are_calibrated_like_their_smallest_block",
    ),
    Result(
        "Laplace noise (introduction)",
        "trimask_theory.gaussian.laplace_noise",
        "theory/test_masked_draw.py::test_laplace_noise_by_quadrature_and_its_price_in_attributes",
        "without a mask; a mask does not help it",
    ),
)
_TM2 = (
    Result(
        "basic procedure, steps 1-4",
        "trimask_server.suites.rows.math",
        "server/test_pool.py::test_published_release_has_no_factor_left",
    ),
    Result(
        "Theorem 3.6",
        "trimask_theory.papers.preimage.with_invertible_mask",
        "theory/test_preimage.py::test_theorem_3_6_every_turned_data_set_has_an_invertible_mask",
        "the preimage is constructed",
    ),
    Result(
        "Theorem 3.7",
        "trimask_theory.papers.preimage.with_orthogonal_mask",
        "theory/test_preimage.py::test_theorem_3_7_every_turned_data_set_has_an_orthogonal_mask",
        "the preimage is constructed",
    ),
    Result(
        "Lemma 3.3",
        "trimask_theory.papers.preimage",
        "theory/test_preimage.py::test_lemma_3_3_all_120_permutations_of_binary_answers_stay_possible",
        "what is possible; not that it is as likely (Theorem 3.8)",
    ),
    Result(
        "condition (3.5)",
        "trimask_theory.masking.collection.check_condition",
        "theory/test_collection.py::test_condition_holds_at_tau_and_fails_far_below_it",
    ),
    Result(
        "Theorem 3.8",
        "trimask_theory.papers.right_view",
        "theory/test_right_view.py::test_theorem_3_8_fails_and_the_bound_does_not",
        "false; a mu is proved instead",
    ),
    Result(
        "Appendix A",
        "trimask_theory.papers.attacks",
        "attacks/test_attack_rules.py::test_appendix_a_example_reveals_the_answer",
    ),
    Result(
        "Appendix C",
        "trimask_theory.masking.collection.tau_appendix_c",
        "theory/test_collection.py::test_appendix_c_by_its_formula",
    ),
    Result(
        "section 3.5",
        "trimask_core.rows.collusion",
        "attacks/test_attack_rules.py::test_component_before_and_after_gives_the_left_mask",
        "with what it leaves open",
    ),
)
_SUMS = (
    Result(
        "Algorithms 1, 2",
        "trimask_theory.mechanisms.vector_sum",
        "theory/test_vector_sum.py::test_bounded_mechanisms_add_the_predicted_noise_to_the_exact_sum",
    ),
    Result(
        "Algorithm 3",
        "trimask_theory.mechanisms.vector_sum.clipped",
        "theory/test_vector_sum.py::test_clipped_sum_restores_the_centre_and_the_scale",
    ),
    Result(
        "Theorem 2",
        "trimask_theory.gaussian.local_noise.analytic_scale",
        "theory/test_vector_sum.py::test_scale_is_the_analytic_gaussians",
    ),
    Result(
        "Theorem 3",
        "trimask_theory.mechanisms.vector_sum.bounded_scaling",
        "theory/test_vector_sum.py::test_scalings_meet_their_constraints_and_are_optimal",
    ),
    Result(
        "Theorem 4",
        "trimask_theory.mechanisms.vector_sum.theorem_4_error",
        "theory/test_vector_sum.py::test_theorem_4_bounds_the_exact_error_where_its_condition_holds",
    ),
    Result(
        "Figure 2",
        "trimask_theory.mechanisms.vector_sum.clipped_gain",
        "theory/test_vector_sum.py::test_gain_of_figure_2_stays_between_one_and_d",
    ),
    Result(
        "Theorem 1",
        "trimask_theory.gaussian.local_noise.calibrate",
        "theory/test_local_noise.py::test_the_classic_gaussian_mechanism_by_corollary_5_of_ndis",
        'method "classic"',
    ),
    Result(
        "Figure 1",
        "trimask_theory.mechanisms.vector_sum",
        "theory/test_vector_sum.py::test_gain_of_figure_2_stays_between_one_and_d",
        "the deviations of that figure; drawn by docs/figures/make_figures.py",
    ),
    Result(
        "constraint (25)",
        "trimask_theory.mechanisms.clipped_sum.ball_scaling",
        "theory/test_clipped_sum.py::test_constraint_25_is_met_and_no_scaling_nearby_needs_less_noise",
        "a stationary point, found numerically",
    ),
    Result(
        "the optimal p_C (section 6)",
        "trimask_theory.mechanisms.clipped_sum.best_clip_probability",
        "theory/test_clipped_sum.py::test_the_best_clip_probability_beats_the_papers",
        "for a centre that is the true one",
    ),
    Result(
        "a private centre (section 6.1)",
        "trimask_theory.mechanisms.clipped_sum.with_private_centre",
        "theory/test_clipped_sum.py::test_a_private_centre_spends_the_budget_and_finds_the_sum",
    ),
    Result(
        "comparison with clipping in the errors (section 6)",
        "trimask_theory.mechanisms.clipped_sum.clipping_error",
        "theory/test_clipped_sum.py::test_clipping_error_is_that_of_draws",
        "among its own methods, [docs](theory/private-pca-and-sums.md)",
    ),
    Result(
        "comparison with [3] and [11] (section 6, future work)",
        "trimask_theory.papers.shifted_clipped_mean",
        "theory/test_shifted_clipped_mean.py::test_the_budget_adds_up_and_every_noise_is_in_it",
        "it prints none; both as baselines written anew, [11] not from its full text, "
        "[docs](theory/private-pca-and-sums.md)",
    ),
)
_NDIS = (
    Result(
        "Theorem 1",
        "trimask_theory.gaussian.gaussian_pair.delta",
        "theory/test_gaussian_pair.py::test_monte_carlo_in_twelve_dimensions",
    ),
    Result(
        "Theorem 2, Lemma 2, Corollary 4",
        "trimask_theory.mechanisms.projection",
        "theory/test_projection.py::test_closed_form",
    ),
    Result(
        "Table 2",
        "trimask_theory.mechanisms.projection",
        "theory/test_projection.py::test_ratios_to_the_baseline_of_the_papers_table_2",
    ),
    Result(
        "M_LS, Table 6",
        "trimask_theory.mechanisms.least_squares",
        "theory/test_least_squares.py::test_canonical_pair_equals_the_full_matrices",
        "the pair derived anew",
    ),
    Result(
        "Theorem 5",
        "trimask_theory.mechanisms.least_squares",
        "theory/test_least_squares.py::test_monotonicity_as_the_paper_draws_it_and_as_it_prints_it",
        "assumption false as printed",
    ),
    Result(
        "Corollary 5, Figure 7",
        "trimask_theory.gaussian.local_noise.calibrate",
        "theory/test_local_noise.py::test_the_classic_gaussian_mechanism_by_corollary_5_of_ndis",
        'method "classic"',
    ),
    Result(
        "Definitions 6, 7 from rows",
        "trimask_theory.papers.relative.of_rows",
        "theory/test_relative.py::test_definitions_6_and_7_over_every_pair_of_the_set",
    ),
    Result(
        "Figures 12, 13: M_RP^rel, M_LS^rel",
        "trimask_theory.papers.relative.inherent_delta",
        "theory/test_relative.py::test_the_inherent_delta_is_that_of_the_pair_of_normals",
        "with `relative_calibrate` of projection and least_squares",
    ),
    Result(
        "M_sigma^rel",
        "trimask_theory.papers.relative.gaussian_calibrate",
        "theory/test_relative.py::test_the_relative_gaussian_mechanism_is_the_analytic_gaussian_at_the_sets_sensitivity",
    ),
    Result(
        "Tables 3, 4",
        "trimask_theory.papers.relative",
        "theory/test_ndis_tables.py::test_relative_privacy_as_in_tables_3_and_4",
        "on data of the same shape; [docs](theory/ndis-tables.md)",
    ),
    Result(
        "Figures 5, 6, 9, 10",
        "trimask_theory.papers.relative",
        "theory/test_relative.py::test_the_inherent_delta_is_that_of_the_pair_of_normals",
        "drawn by docs/figures/make_ndis_figures.py on data of the same shape; [docs](theory/ndis-tables.md)",
    ),
    Result(
        "baseline [17]",
        "",
        "",
        "not built: it bounds a mutual information; how that became (epsilon, delta) is not printed",
    ),
)
_PCA = (
    Result(
        "Theorem 1",
        "trimask_theory.mechanisms.pca",
        "theory/test_pca_sampling.py::test_overlaps_follow_theorem_1_at_the_papers_size",
    ),
    Result(
        "Theorem 2",
        "trimask_theory.mechanisms.pca",
        "theory/test_pca_sampling.py::test_trade_off_curve_follows_theorem_2",
    ),
    Result(
        "(28), the adaptive procedure",
        "trimask_theory.mechanisms.pca.mechanism",
        "theory/test_pca_mechanism.py::test_adaptive_release_composes_and_finds_beta_near_the_oracle",
    ),
    Result(
        "rank transformation",
        "trimask_theory.mechanisms.pca",
        "theory/test_pca_mechanism.py::test_rank_transform_averages_ties_and_keeps_the_norm_bound",
    ),
    Result(
        "Theorem 3",
        "trimask_theory.mechanisms.pca.overlap",
        "theory/test_pca_contiguity.py::test_theorem_3_needs_no_covariance_and_loses_a_component_below_h",
    ),
    Result(
        "Theorem 5",
        "trimask_theory.mechanisms.pca.perturbation_variance",
        "theory/test_pca_contiguity.py::test_theorem_5_for_changes_of_rank_two_against_draws",
        "(12) and (13) derived again",
    ),
    Result(
        "Definition 4, the Renyi form",
        "trimask_theory.mechanisms.pca.renyi",
        "theory/test_pca_contiguity.py::test_renyi_is_that_of_two_normals",
    ),
    Result(
        "Figure 1",
        "trimask_theory.mechanisms.pca.pure_epsilon",
        "theory/test_pca_contiguity.py::test_the_papers_epsilon_of_figure_1",
        "its 0.16, 3.19 and 19.17; drawn on made-up genotypes of the same shape",
    ),
    Result(
        "Figure 2",
        "trimask_theory.gaussian.gdp.dp_trade_off",
        "theory/test_gdp.py::test_each_pair_of_a_mu_supports_its_trade_off_curve_and_touches_it",
        "drawn by docs/figures/make_figures.py",
    ),
)

PAPERS: dict[str, tuple[Result, ...]] = {
    "Noise under matrix masking (Ding, Wu, Miao, Chen)": _NOISE,
    "Triple matrix-masking (Ding, Miao, Wu)": _TM2,
    "Private vector sums (Poulsen)": _SUMS,
    "Normal distributions indistinguishability spectrum (Lu, Magdon-Ismail, Wei, Zikas)": _NDIS,
    "Private principal components (Yun, Dudeja)": _PCA,
}


def document() -> str:
    """The page."""
    lines = [
        "# The papers, statement by statement",
        "",
        "What of the five papers is built, where, and the test that shows it; made by `scripts/paper_coverage.py`. Their",
        "errors are on the page [errata](theory/errata.md), what goes beyond them on",
        "[sharp calibration](theory/sharp-calibration.md).",
    ]
    for paper, results in PAPERS.items():
        lines += ["", f"## {paper}", "", "| statement | where | shown by | remark |", "|---|---|---|---|"]
        for item in results:
            where, test = (f"`{word}`" if word else "–" for word in (item.where, item.test))
            lines.append(f"| {item.what} | {where} | {test} | {item.remark} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
