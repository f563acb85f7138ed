"""A SecAgg+ client by Flower's own functions, and our report of the same numbers, in one interpreter, printed as JSON:
`python peers_flower.py FLOWER SCHEMA ANSWERS BITS NEIGHBOURS`.

The client's four rounds call what `flwr.client.mod.secure_aggregation.secaggplus_mod` calls, in its order, and send what it
sends: two P-384 keys; a Fernet token for every neighbour with shares of a seed and of a key; the vector, quantised to so
many bits and masked; a share for every neighbour. The others' keys and tokens are made beforehand and not counted. The
package's `__init__` asks for much that secure aggregation does not use, so only its modules are loaded.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

from trimask_core.basics.randomness import SystemRandom
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import build_report, share_payloads, split
from trimask_core.study.schema import Schema

_TURNS, _ME = 3, 0


def _modules(folder: str) -> Any:
    """Flower's functions for SecAgg+, by their names."""
    for name in ("flwr", "flwr.common", "flwr.supercore", "flwr.supercore.primitives"):
        module: Any = types.ModuleType(name)
        module.__path__ = [str(Path(folder, *name.split(".")))]
        module.NDArrayFloat = module.NDArrayInt = Any
        sys.modules[name] = module
    sys.path.insert(0, folder)
    from importlib import import_module

    found: dict[str, Any] = {}
    for name in (
        "flwr.supercore.primitives.asymmetric",
        "flwr.common.secure_aggregation.crypto.shamir",
        "flwr.common.secure_aggregation.crypto.symmetric_encryption",
        "flwr.common.secure_aggregation.ndarrays_arithmetic",
        "flwr.common.secure_aggregation.quantization",
        "flwr.common.secure_aggregation.secaggplus_utils",
    ):
        found |= vars(import_module(name))
    return types.SimpleNamespace(**found)


class _Client:
    """One client of SecAgg+ with `neighbours` others; rounds 0 to 3."""

    def __init__(self, flower: Any, number: int, neighbours: int) -> None:
        self.flower, self.number = flower, number
        self.count = neighbours + 1
        self.threshold = self.count // 2 + 1

    def keys(self) -> list[bytes]:
        f = self.flower
        (sk1, pk1), (sk2, pk2) = f.generate_key_pairs(), f.generate_key_pairs()
        self.sk1, self.sk2 = f.private_key_to_bytes(sk1), f.private_key_to_bytes(sk2)
        return [f.public_key_to_bytes(pk1), f.public_key_to_bytes(pk2)]

    def _shared(self, own: bytes, other: bytes) -> bytes:
        f = self.flower
        shared: bytes = f.generate_shared_key(f.bytes_to_private_key(own), f.bytes_to_public_key(other))
        return shared

    def share_keys(self, public: dict[int, list[bytes]]) -> dict[int, bytes]:
        """A token for every neighbour."""
        f = self.flower
        self.public, self.seed = public, os.urandom(32)
        seeds = f.create_shares(self.seed, self.threshold, self.count)
        keys = f.create_shares(self.sk1, self.threshold, self.count)
        self.held = {self.number: seeds[self.number]}
        self.ss2: dict[int, bytes] = {}
        tokens = {}
        for other, (_, pk2) in public.items():
            if other != self.number:
                self.ss2[other] = self._shared(self.sk2, pk2)
                tokens[other] = self._token(other, self.ss2[other], seeds[other], keys[other])
        self.key_share = keys[self.number]
        return tokens

    def _token(self, other: int, shared: bytes, seed_share: bytes, key_share: bytes) -> bytes:
        text = self.flower.share_keys_plaintext_concat(self.number, other, seed_share, key_share)
        token: bytes = self.flower.encrypt(shared, text)
        return token

    def token_for(self, other: _Client) -> bytes:
        """A token of the right size, with the other's own shares in it: it is decrypted, and never combined."""
        shared = self._shared(self.sk2, other.public[other.number][1])
        return self._token(other.number, shared, other.held[other.number], other.key_share)

    def masked(self, tokens: dict[int, bytes], vector: Any, bits: int) -> list[Any]:
        f, modulus = self.flower, 1 << 32
        for source, token in tokens.items():
            _, _, self.held[source], _ = f.share_keys_plaintext_separate(f.decrypt(self.ss2[source], token))
        values = f.factor_combine(1, f.quantize([vector], 1.0, 1 << bits))
        shapes = [one.shape for one in values]
        values = f.parameters_addition(values, f.pseudo_rand_gen(self.seed, modulus, shapes))
        for other in tokens:
            mask = f.pseudo_rand_gen(self._shared(self.sk1, self.public[other][0]), modulus, shapes)
            change = f.parameters_addition if self.number > other else f.parameters_subtraction
            values = change(values, mask)
        masked: list[Any] = f.parameters_mod(values, modulus)
        return masked

    def shares(self) -> list[bytes]:
        return list(self.held.values())


def _saved(array: Any) -> int:
    """As Flower sends an array."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.tell()


def _least(turn: Any) -> float:
    """Milliseconds of processor time, the least of several turns."""
    times = []
    for _ in range(_TURNS):
        start = time.process_time()
        turn()
        times.append(1e3 * (time.process_time() - start))
    return min(times)


def main(folder: str, schema: str, answers: str, bits: str, neighbours: str) -> None:
    flower, others = _modules(folder), int(neighbours)
    source, layout = SystemRandom(), MomentsLayout.of(Schema.from_dict(json.loads(schema)))
    given = json.loads(answers)
    q = len(layout.columns)

    def report() -> int:
        return sum(map(len, share_payloads(*split(build_report(layout, given, source), 2, source))))

    ours = {"ms": _least(report), "bytes": report()}
    people = [_Client(flower, number, others) for number in range(others + 1)]
    public = {one.number: one.keys() for one in people}
    people[_ME].share_keys(public)
    tokens = {one.number: one.token_for(people[_ME]) for one in people[1:]}
    vector = np.random.default_rng(1).uniform(-1, 1, q + q * (q + 1) // 2)
    sent: dict[str, int] = {}

    def turn() -> None:
        me = _Client(flower, _ME, others)
        me.keys()
        me.sk1, me.sk2 = people[_ME].sk1, people[_ME].sk2  # those that the others' tokens are for
        given = me.share_keys(public)
        masked = me.masked(tokens, vector, int(bits))
        sent["bytes"] = (
            sum(map(len, public[_ME]))
            + sum(len(token) + 8 for token in given.values())  # with whom it is for
            + sum(map(_saved, masked))
            + sum(len(share) + 8 for share in me.shares())
        )

    ms = _least(turn)
    print(json.dumps({"moments": ours, "secagg": {"ms": ms, **sent}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
