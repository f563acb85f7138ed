"""Speed, as ratios to a limit measured in the same run. `python -m bench` from the repository's root."""
