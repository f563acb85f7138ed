"""Verified moments: second moments summed in shares, each report with a proof."""
