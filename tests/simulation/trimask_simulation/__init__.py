"""Every party of a study in one process, on virtual time, with faults drawn from a seed."""
