"""From a study's definition to the study, and what it would cost and show."""
