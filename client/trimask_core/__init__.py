"""What every party computes alike: the grid, Haar frames, components, noise, sealing, and the study they agree on.

NumPy and cryptography alone: everything here runs on a phone. Import from the modules; nothing is re-exported.
"""
