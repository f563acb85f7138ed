"""A study in words: what it promises and who could see what, as facts and as sentences."""
