"""What a device does with one row, in plain Python: the only code that processes a person's answers.

It needs no numpy, and gives the same integers on every machine: only operations that IEEE 754 defines to the bit are used,
and sums are added up from left to right. `trimask_core.rows.gateway` does the same for many rows at a time, with numpy.
"""
