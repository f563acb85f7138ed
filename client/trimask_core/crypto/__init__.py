"""Identities, sealing, and records that a device keeps encrypted."""
