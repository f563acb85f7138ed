"""A device's arithmetic on one row in plain Python, for devices without numpy.

The same randomness gives the same integers: the deterministic normals agree with `trimask_core.rows.normal` to the bit, and
so do the answers with their noise and the components expanded from seeds. The masked row passes through sums that
numpy adds up in another order, so there the two agree to one grid step, which is of the order of 1e-8.
"""
