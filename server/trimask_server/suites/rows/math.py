"""The arithmetic of the rows suite, without I/O: right masks, blinding, pooling, the noise of publishing, matrices as bytes.

On the wire a matrix is little-endian, in slices of whole rows, well below the message limit.

Pooling keeps the running triangular factor of a release and nothing else of a block
(docs/theory/masking-and-pooling.md#pooling).

The noise of publishing is N(0, (2h)^2) by each party that passes masked rows on, h the grid step. Devices' noise is
discrete, and what a mask adds to its privacy is proved for Gaussian noise: with this on top it is that within 30 digits
(docs/theory/calibration.md#discrete-noise). Unmasking nodes add it to what they deliver, the collector to what it
publishes; a study without noise has none.

B_k is put on and taken off without ever forming a p x p matrix (docs/theory/masking-and-pooling.md#right-mask): X B =
(X Q'^T) F with a frame F and Q' = O Q, Q from the thin LQ of X. Q itself must not be handed to the unmasking node.

Of blinded deliveries the collector sees the sum over components of A X^k, and no A X^k. For every pair of components k <
l the two unmasking nodes share a secret by keys drawn for this attempt (`keys.Pairing`), expand it to a uniform matrix
modulo 2^64, and add it to one delivery and subtract it from the other. The private keys are forgotten with the attempt,
so nothing seized later opens a delivery that was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import RandomSource, Stream, derive_key
from trimask_core.basics.refusals import Reason
from trimask_core.rows.arrays import HaarFrame, Matrix, NormalStream
from trimask_proto.v1 import common_pb2

_SLICE_BYTES = 2 << 20


def slices(matrix: NDArray[Any]) -> Iterator[common_pb2.MatrixSlice]:
    """The matrix as slices. 8-byte values; columns of a wider array may be passed as a view."""
    rows, columns = matrix.shape
    step = max(1, _SLICE_BYTES // (8 * columns))
    little = matrix.dtype.newbyteorder("<")
    for first in range(0, rows, step):
        part = np.ascontiguousarray(matrix[first : first + step]).astype(little, copy=False)
        yield common_pb2.MatrixSlice(rows=rows, columns=columns, first_row=first, values=part.tobytes())


class Assembler:
    """Puts slices back together. Slices may come twice or in any order; the shape may not change."""

    __slots__ = ("_dtype", "_matrix", "_missing")

    def __init__(self, dtype: type[np.float64] | type[np.uint64] = np.float64) -> None:
        self._dtype = dtype
        self._matrix: NDArray[Any] | None = None
        self._missing: set[int] = set()

    def into(self, target: NDArray[Any]) -> None:
        """Assemble into an existing array (a view of a wider one)."""
        self._matrix = target
        self._missing = set(range(target.shape[0]))

    def add(self, piece: common_pb2.MatrixSlice, rows_allowed: range, columns: int) -> None:
        """Take one slice in, or refuse it with the reason."""
        width = 8 * columns
        count, rest = divmod(len(piece.values), width)
        if piece.rows not in rows_allowed or piece.columns != columns:
            raise Refused(
                Reason.WRONG_SHAPE,
                f"a matrix of {rows_allowed.start} to {rows_allowed.stop - 1} rows and {columns} columns was expected, "
                f"not {piece.rows} x {piece.columns}",
            )
        if rest or count == 0 or piece.first_row + count > piece.rows:
            raise Refused(Reason.WRONG_SHAPE, "a slice must hold whole rows inside the matrix")
        if self._matrix is None:
            self.into(np.empty((piece.rows, columns), dtype=self._dtype))
        matrix = self._matrix
        assert matrix is not None  # noqa: S101 - for the type checker
        if matrix.shape[0] != piece.rows:
            raise Refused(Reason.WRONG_SHAPE, "the number of rows changed between slices")
        values = np.frombuffer(piece.values, dtype=np.dtype(self._dtype).newbyteorder("<")).reshape(
            count, columns
        )
        if self._dtype is np.float64 and not bool(np.isfinite(values).all()):
            raise Refused(Reason.WRONG_SHAPE, "a matrix may not contain NaN or infinity")
        matrix[piece.first_row : piece.first_row + count] = values
        self._missing.difference_update(range(piece.first_row, piece.first_row + count))

    @property
    def complete(self) -> bool:
        """Whether every row has come."""
        return self._matrix is not None and not self._missing

    def take(self) -> NDArray[Any]:
        """The matrix; it is forgotten here."""
        matrix, self._matrix = self._matrix, None
        if matrix is None or self._missing:
            raise Refused(Reason.WRONG_SHAPE, "the matrix is not complete")
        return matrix


def fold(factor: Matrix | None, block: Matrix) -> Matrix:
    """The p1 x p1 factor with a block (or another factor) folded in."""
    stacked = block if factor is None else np.vstack((factor, block))
    triangular: Matrix = np.asarray(np.linalg.qr(stacked, mode="r"))
    p1 = block.shape[1]
    if triangular.shape[0] < p1:
        triangular = np.vstack((triangular, np.zeros((p1 - triangular.shape[0], p1))))
    return triangular


def factor_to_bytes(factor: Matrix) -> bytes:
    """For the store."""
    return factor.astype("<f8").tobytes()


def factor_from_bytes(data: bytes) -> Matrix:
    """From the store."""
    size = round((len(data) // 8) ** 0.5)
    return np.frombuffer(data, dtype="<f8").reshape(size, size).astype(np.float64)


def masked_release(factor: Matrix, rows: int, seed: bytes) -> Matrix:
    """A_0 applied: `rows` masked rows with the factor's second moments."""
    p1 = factor.shape[1]
    return HaarFrame(seed, p1, rows).apply(factor.T).T


_LABEL = b"noise of publishing"
_ROWS = 1 << 14  # at a time


def publishing_noise(scale: float, shape: tuple[int, ...], seed: bytes) -> Matrix:
    """Independent N(0, scale^2), from a seed that nobody keeps."""
    return scale * NormalStream(seed, _LABEL).standard_normal(shape)


def with_publishing_noise(factor: Matrix, rows: int, scale: float, seed: bytes) -> Matrix:
    """The factor of A [factor; 0] + G for `rows` rows of noise G: A is Haar, so that of [factor; 0] + G is one."""
    if not scale:
        return factor
    blocks = _blocks(rows, factor.shape[1], scale, seed)
    first = next(blocks)
    first[: len(factor)] += factor
    found = fold(None, first)
    for block in blocks:
        found = fold(found, block)
    return found


def _blocks(rows: int, columns: int, scale: float, seed: bytes) -> Iterator[Matrix]:
    normals = NormalStream(seed, _LABEL)
    for start in range(0, rows, _ROWS):
        yield np.multiply(scale, normals.standard_normal((min(_ROWS, rows - start), columns)))


PROBES = 8
# Left masking moves the projected Gram matrix by rounding alone, about 1e-14 of its trace; a data-sized change of one
# entry moves it by 1e-6/n or more.
_TOLERANCE = 1e-11


@dataclass(frozen=True)
class RightMask:
    """B_k as the unmasking node gets it, with the invariant to check: (X B Z)^T (X B Z) for secret Z."""

    frame_seed: bytes = field(repr=False)
    basis: Matrix = field(repr=False)
    probe_seed: bytes = field(repr=False)
    probe_gram: Matrix = field(repr=False)

    @cached_property
    def frame(self) -> HaarFrame:
        """F, expanded once: tag keys are put under it, and then it is taken off."""
        return HaarFrame(self.frame_seed, *self.basis.shape)


def _probe(seed: bytes, masked: Matrix) -> Matrix:
    projections = masked @ NormalStream(seed, b"gram probe").standard_normal((masked.shape[1], PROBES))
    return projections.T @ projections


def apply_right_mask(component: Matrix, source: RandomSource) -> tuple[Matrix, RightMask]:
    """X^k B_k for a fresh B_k, and B_k."""
    n, p = component.shape
    orthonormal, triangular = np.linalg.qr(component.T)
    rotation = HaarFrame(source.seed(), n, n)
    basis = rotation.rotate(orthonormal.T.copy())
    frame_seed, probe_seed = source.seed(), source.seed()
    # X Q'^T = (Q R)^T (O Q^T)^T = (O R)^T
    masked = HaarFrame(frame_seed, n, p).apply(rotation.rotate(triangular.copy()).T)
    return masked, RightMask(frame_seed, basis, probe_seed, _probe(probe_seed, masked))


def check_gram(masked: Matrix, mask: RightMask) -> None:
    """Refuse a returned block whose Gram matrix is not the one sent (docs/theory/masking-and-pooling.md#gram-check)."""
    returned = _probe(mask.probe_seed, masked)
    if not np.abs(returned - mask.probe_gram).max() <= _TOLERANCE * np.trace(mask.probe_gram):
        raise Refused(
            Reason.GRAM_CHANGED,
            "left masking changed the Gram matrix: rows were dropped, altered or mixed on the way",
        )


def remove_right_mask(masked: Matrix, mask: RightMask) -> Matrix:
    """A X^k from A X^k B_k, after checking it."""
    n, p = mask.basis.shape
    if masked.shape != (n, p):
        raise Refused(Reason.WRONG_SHAPE, f"the masked block must be {n} x {p}")
    check_gram(masked, mask)
    return mask.frame.unapply(masked) @ mask.basis


_CHUNK = 1 << 16  # words at a time, so that the stream stays in cache


def blind(
    values: NDArray[np.int64], component: int, secrets: dict[int, bytes], context: bytes
) -> NDArray[np.uint64]:
    """`values` plus this component's pairwise masks. `secrets[l]` is what its unmasking node and component l's alone know.

    Where one node unmasks both of a pair it has a secret with itself, which nobody else can have.
    """
    blinded = values.astype(np.int64, copy=True).view(np.uint64)
    for other, secret in secrets.items():
        if other == component:
            continue
        low, high = sorted((component, other))
        label = b"blinding\0" + context + low.to_bytes(2, "big") + high.to_bytes(2, "big")
        stream = Stream(derive_key(secret, label), b"blinding")
        flat = blinded.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            mask = stream.words(part.size)
            if component == low:
                part += mask
            else:
                part -= mask
    return blinded


def sum_deliveries(deliveries: list[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """The masks cancel in the sum modulo 2^64; what remains is A X on the grid."""
    total = deliveries[0].copy()
    for delivery in deliveries[1:]:
        total += delivery
    return total.view(np.int64)
