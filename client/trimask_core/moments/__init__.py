"""What the moments suite needs on devices and nodes alike: verified second moments, summed in shares.

A device turns its answers into bits, columns and products over a prime field (`layout`), proves that they belong together
(`report`) and splits the lot among the right providers (`report.split`). The providers apply five linear forms, fixed by a
secret challenge (`check`), to their shares and accept the report if the opened values fit.

No numpy: a phone does all of it, and a provider that has numpy takes its indices and coefficients from here.
"""
