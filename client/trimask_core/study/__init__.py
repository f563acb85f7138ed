"""The study that all parties sign: schema, settings, guarantee, rules, weaknesses, progress."""
