"""Whether a device's tags are right, shown before its row is planned: a wrong tag would stop its block.

For the coin e of a check, R_k shows the holder of a key e x + y modulo the prime, where y is the device's spare vector,
uniform and used this once, and the tags' same combination. Wrong tags pass for one e of 2^127
(docs/theory/collection.md#tags).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from trimask_core.rows.shares import expand_tag_key
from trimask_core.rows.tags import PRIME, Tagged, add_elements, expand_spare, tags_of

__all__ = ["challenge", "combination", "combination_holds"]


def challenge(seed: bytes) -> int:
    """e, from the seed of a check."""
    return int.from_bytes(hashlib.sha256(b"trimask tag challenge\0" + seed).digest(), "big") % PRIME


def combination(component: Sequence[int], tagged: Tagged, holder: int, e: int) -> tuple[list[int], list[int]]:
    """e x + y, and the same of the tags for one holder (from 0)."""
    spare = expand_spare(tagged.spare, len(component))
    values = [(e * x + y) % PRIME for x, y in zip(component, spare, strict=True)]
    return values, add_elements([[e * tag for tag in tagged.tags[holder]], tagged.spare_tags[holder]])


def combination_holds(values: Sequence[int], tags: Sequence[int], seed: bytes, e: int) -> bool:
    """Whether they fit the key that the seed stands for."""
    key = expand_tag_key(seed, len(values))
    offsets = add_elements([[e * offset for offset in key.offsets], key.spare_offsets])
    return tags_of(values, key, offsets) == [tag % PRIME for tag in tags]
