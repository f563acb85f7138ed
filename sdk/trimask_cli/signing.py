"""A party's approval of a study, with the keys in its folder."""

from __future__ import annotations

from pathlib import Path

from trimask_core.errors import ConfigError
from trimask_core.identity import SigningKey
from trimask_core.moments.secret import MomentsSecret
from trimask_core.party_files import read_secret
from trimask_core.signed_study import Approval, approve, needs_commitment
from trimask_core.study import Study

__all__ = ["role_in", "sign"]


def role_in(study: Study, keys: Path) -> str:
    """The role that these keys have in the study."""
    return study.role_of(_identity(keys).public)


def sign(study: Study, keys: Path, now_ms: int) -> Approval:
    """The approval; a right provider's in the moments suite commits to its part of the challenge key."""
    identity = _identity(keys)
    commitment = b""
    if needs_commitment(study, study.role_of(identity.public)):
        commitment = MomentsSecret.load(keys).commitment(study.id)
    return approve(study, identity, now_ms, commitment)


def _identity(keys: Path) -> SigningKey:
    path = keys / "identity.key"
    if not path.is_file():
        raise ConfigError(
            f"{keys} has no identity.key: give the folder of one party's own keys, such as keys/R1"
        )
    return SigningKey(read_secret(path))
