"""The keys of parties: an Ed25519 identity to sign with, and keys that components are sealed to, by HPKE (RFC 9180).

An identity is a party's lasting name, with which it signs approvals, receipts, plans and manifests. Every signature is bound
to a context word, so that bytes signed for one purpose verify for no other.

A component is sealed to one right provider, for one study and one submission: the study id, the provider's number and the
submission id are HPKE's `info`, so it opens nowhere else. A sealed message is the encapsulated key followed by the
ciphertext. What a right provider must find when it opens its part has one form, whatever the suite. What nodes tell each
other is sealed with keys of the same kind, and their pairwise secrets (`Pairing`) keep as long.

A study says which of two kinds its sealing keys are, and so does the length of a public key:

- `hybrid`: ML-KEM-768 with X25519 (KEM 0x647a of draft-ietf-hpke-pq, which is X-Wing), HKDF-SHA256, AES-256-GCM. It stays
  closed while either of the two holds: what is recorded today opens to no quantum computer of later days.
- `classical`: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, as all studies had before.

Keys of the two kinds have nothing in common: a hybrid key that shared its secret with an X25519 key would fall with it.

Where `cryptography` lacks them (Android's packages are older), a device seals from primitives, one message a key (sequence
number 0, so the nonce is the base nonce). Checked on Appendix A.1.1, on the draft's vectors and, both ways, against the
native implementation. Nodes open hybrid components with the native one alone.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_core.basics.errors import ConfigError, ParameterError, VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom, derive_key
from trimask_core.crypto import mlkem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite


_PREFIX = b"trimask/v1/"


def _bound(context: str, message: bytes) -> bytes:
    return _PREFIX + context.encode() + b"\0" + message


class SigningKey:
    """A private Ed25519 key. Its printed form shows the public half alone."""

    __slots__ = ("_key", "public")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ParameterError("identity key", "32 bytes")
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, source: RandomSource | None = None) -> SigningKey:
        """A fresh identity."""
        return cls((source or SystemRandom()).seed())

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public.hex()})"

    def secret_bytes(self) -> bytes:
        """The private half, for the key file and nothing else."""
        return self._key.private_bytes_raw()

    def sign(self, context: str, message: bytes) -> bytes:
        """A signature over `message` for the purpose `context`."""
        return self._key.sign(_bound(context, message))


def verify(public: bytes, context: str, message: bytes, signature: bytes, what: str) -> None:
    """Raise `VerificationError`, naming `what`, unless the signature is `public`'s for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _bound(context, message))
    except (InvalidSignature, ValueError):
        raise VerificationError(f"the signature on {what} does not verify") from None


Sealing = Literal["hybrid", "classical"]
SEALINGS: tuple[Sealing, ...] = ("hybrid", "classical")
"""The first is what a study gets whose owner does not say."""
PUBLIC_KEY_BYTES: dict[Sealing, int] = {"classical": 32, "hybrid": mlkem.PUBLIC_BYTES + 32}
SEAL_OVERHEAD_BYTES: dict[Sealing, int] = {"classical": 32 + 16, "hybrid": mlkem.CIPHERTEXT_BYTES + 32 + 16}
"""The encapsulated key and the tag."""

DOES_NOT_OPEN = (
    "a sealed component does not open: it was altered, or sealed to another key, study or submission"
)
_KEM = b"KEM\x00\x20"
_SUITE = b"HPKE\x00\x20\x00\x01\x00\x01"
_HYBRID_SUITE = b"HPKE\x64\x7a\x00\x01\x00\x02"
_HYBRID_KEY_BYTES = 32
_LABEL = b"\\.//^\\"  # of X-Wing: what the hash of the two secrets is for
_KEY_BYTES, _NONCE_BYTES, _SECRET_BYTES, _ENC_BYTES = 16, 12, 32, 32


def _extract(salt: bytes, suite: bytes, label: bytes, keying: bytes) -> bytes:
    """LabeledExtract, section 4. An empty salt is HMAC's empty key, which is a block of zeros."""
    return hmac.digest(salt, b"HPKE-v1" + suite + label + keying, hashlib.sha256)


def _expand(key: bytes, suite: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """LabeledExpand, section 4; one block of SHA-256 is all that is ever asked for."""
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, labelled + b"\x01", hashlib.sha256)[:length]


def shared_secret(private: X25519PrivateKey, peer: bytes, enc: bytes, recipient: bytes) -> bytes:
    """Encap and Decap of section 4.1 after the key agreement: ExtractAndExpand over enc and the recipient's key.

    The agreement raises `ValueError` for a peer of low order, whose secret would be zero.
    """
    agreed = private.exchange(X25519PublicKey.from_public_bytes(peer))
    extracted = _extract(b"", _KEM, b"eae_prk", agreed)
    return _expand(extracted, _KEM, b"shared_secret", enc + recipient, _SECRET_BYTES)


def key_schedule(
    shared: bytes, info: bytes, suite: bytes = _SUITE, key_bytes: int = _KEY_BYTES
) -> tuple[bytes, bytes]:
    """The AEAD key and base nonce of section 5.1 in base mode: no pre-shared key, no sender's key."""
    context = b"\x00" + _extract(b"", suite, b"psk_id_hash", b"") + _extract(b"", suite, b"info_hash", info)
    secret = _extract(shared, suite, b"secret", b"")
    return (
        _expand(secret, suite, b"key", context, key_bytes),
        _expand(secret, suite, b"base_nonce", context, _NONCE_BYTES),
    )


def hybrid_encapsulate(public: bytes, random: bytes) -> tuple[bytes, bytes]:
    """X-Wing's Encaps: the shared secret and the encapsulated key. `random` is 32 bytes for ML-KEM, then 32 for X25519."""
    lattice, curve = public[: mlkem.PUBLIC_BYTES], public[mlkem.PUBLIC_BYTES :]
    ephemeral = X25519PrivateKey.from_private_bytes(random[32:])
    agreed = ephemeral.exchange(X25519PublicKey.from_public_bytes(curve))
    first, ciphertext = mlkem.encapsulate(lattice, random[:32])
    point = ephemeral.public_key().public_bytes_raw()
    return hashlib.sha3_256(first + agreed + point + curve + _LABEL).digest(), ciphertext + point


def hybrid_seal(public: bytes, plaintext: bytes, info: bytes, random: bytes | None = None) -> bytes:
    """SealBase to a hybrid key. `random`, 64 bytes used once, is given for test vectors alone."""
    shared, enc = hybrid_encapsulate(public, random or SystemRandom().read(64))
    key, nonce = key_schedule(shared, info, _HYBRID_SUITE, _HYBRID_KEY_BYTES)
    return enc + AESGCM(key).encrypt(nonce, plaintext, b"")


def hpke_seal(
    public: bytes, plaintext: bytes, info: bytes, aad: bytes = b"", ephemeral: X25519PrivateKey | None = None
) -> bytes:
    """SealBase. `ephemeral` is for test vectors: a key used twice shows that two plaintexts are alike."""
    ephemeral = ephemeral or X25519PrivateKey.generate()
    enc = ephemeral.public_key().public_bytes_raw()
    key, nonce = key_schedule(shared_secret(ephemeral, public, enc, public), info)
    return enc + AESGCM(key).encrypt(nonce, plaintext, aad)


def hpke_open(private: X25519PrivateKey, sealed: bytes, info: bytes, aad: bytes = b"") -> bytes:
    """OpenBase; `InvalidTag` if it was altered or sealed for something else."""
    enc, ciphertext = sealed[:_ENC_BYTES], sealed[_ENC_BYTES:]
    if len(ciphertext) < 16:
        raise InvalidTag
    recipient = private.public_key().public_bytes_raw()
    key, nonce = key_schedule(shared_secret(private, enc, enc, recipient), info)
    return AESGCM(key).decrypt(nonce, ciphertext, aad)


def _native_suite() -> Suite | None:
    try:
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    except ImportError:
        return None
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def _native_hybrid() -> Suite | None:
    """None too where the OpenSSL below has no ML-KEM."""
    try:
        from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

        MLKEM768PrivateKey.from_seed_bytes(bytes(64))
        return Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
    except (ImportError, AttributeError, UnsupportedAlgorithm):
        return None


_LIBRARY, _HYBRID_LIBRARY = _native_suite(), _native_hybrid()


@lru_cache(maxsize=32)
def _native_public(public: bytes) -> Any:
    """A hybrid public key as the native implementation wants it; whoever seals many seals to few keys."""
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
    from cryptography.hazmat.primitives.hpke import MLKEM768X25519PublicKey

    return MLKEM768X25519PublicKey(
        MLKEM768PublicKey.from_public_bytes(public[: mlkem.PUBLIC_BYTES]),
        X25519PublicKey.from_public_bytes(public[mlkem.PUBLIC_BYTES :]),
    )


def _native_private(seed: bytes) -> tuple[Any, bytes]:
    """A hybrid private key, expanded from its seed, and the public one."""
    if _HYBRID_LIBRARY is None:
        raise ConfigError("hybrid sealing keys need a `cryptography` with ML-KEM: version 50 has it")
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
    from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey

    expanded = hashlib.shake_256(seed).digest(96)
    lattice = MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
    curve = X25519PrivateKey.from_private_bytes(expanded[64:])
    public = lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()
    return MLKEM768X25519PrivateKey(lattice, curve), public


def component_info(binding: bytes, provider: int, submission_id: bytes) -> bytes:
    """What a sealed component is bound to; `binding` is the study's (`Study.binding`)."""
    return b"trimask/v1/component\0" + binding + provider.to_bytes(2, "big") + submission_id


def sealing_key_id(public: bytes) -> bytes:
    """The short name of a sealing key."""
    return hashlib.sha256(public).digest()[:8]


def sealing_key_message(public: bytes, activate_ms: int, expire_ms: int) -> bytes:
    """What a right provider signs (context "sealing-key") when it publishes a key; `expire_ms` is 0 while no end is set."""
    return public + activate_ms.to_bytes(8, "big") + expire_ms.to_bytes(8, "big")


def kind_of(public: bytes) -> Sealing:
    """What a public key is for, by its length."""
    for kind, size in PUBLIC_KEY_BYTES.items():
        if len(public) == size:
            return kind
    raise VerificationError("a sealing key is of no kind that this version knows")


def require_kind(public: bytes, kind: Sealing, whose: str) -> None:
    """Raise unless a node's key is of the study's kind: nothing is sealed to a weaker one."""
    if len(public) != PUBLIC_KEY_BYTES[kind]:
        raise VerificationError(
            f"the key of {whose} is not {kind}, as the study is: its node runs another version"
        )


def seal(public: bytes, plaintext: bytes, info: bytes) -> bytes:
    """`plaintext` for the holder of the private half of `public` alone."""
    try:
        if kind_of(public) == "hybrid":
            if _HYBRID_LIBRARY is None:
                return hybrid_seal(public, plaintext, info)
            return _HYBRID_LIBRARY.encrypt(plaintext, _native_public(public), info)
        if _LIBRARY is None:
            return hpke_seal(public, plaintext, info)
        return _LIBRARY.encrypt(plaintext, X25519PublicKey.from_public_bytes(public), info)
    except ValueError:
        raise VerificationError("a sealing key is not a usable public key") from None


class SealingKey:
    """A private key, of either kind, that opens what was sealed to it. Its secret is the X25519 key, or a hybrid seed."""

    __slots__ = ("_key", "_secret", "kind", "public")

    def __init__(self, secret: bytes, kind: Sealing = "classical") -> None:
        if len(secret) != 32:
            raise ParameterError("sealing key", "32 bytes")
        self.kind: Sealing = kind
        self._secret = secret
        self._key: Any
        self.public: bytes
        if kind == "hybrid":
            self._key, self.public = _native_private(secret)
        else:
            self._key = X25519PrivateKey.from_private_bytes(secret)
            self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, source: RandomSource | None = None, kind: Sealing = "classical") -> SealingKey:
        """A fresh key."""
        return cls((source or SystemRandom()).seed(), kind)

    def __repr__(self) -> str:
        return f"SealingKey(public={self.public.hex()})"

    def secret_bytes(self) -> bytes:
        """The private half, for the key file and nothing else."""
        return self._secret

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """The plaintext, or `VerificationError` if it was altered or sealed for something else."""
        library = _HYBRID_LIBRARY if self.kind == "hybrid" else _LIBRARY
        try:
            if library is None:
                return hpke_open(self._key, sealed, info)
            return library.decrypt(sealed, self._key, info)
        except (InvalidTag, ValueError):
            raise VerificationError(DOES_NOT_OPEN) from None

    def agree(self, peer_public: bytes) -> bytes:
        """The X25519 secret shared with the holder of `peer_public`'s private half; of classical keys alone."""
        try:
            secret: bytes = self._key.exchange(X25519PublicKey.from_public_bytes(peer_public))
        except ValueError:
            raise VerificationError("a key agreement share is not a usable X25519 public key") from None
        return secret


@dataclass(frozen=True)
class Pairing:
    """One party's side of the secrets that it has with each of the others, a secret a pair, for one `context`.

    Classical keys agree by X25519. Between hybrid ones each side draws half of the secret from its own key and seals it to
    the other (two encapsulations of ML-KEM-768 with X25519), so that X25519's private keys alone open neither. A half that
    somebody else has put in the place of a peer's makes masks that do not cancel, and shows nothing: one's own half is
    sealed to the key that the peer has signed. All is derived, so that a repeat makes the same secrets; the caller binds
    what it derives from one to pair, study and attempt.
    """

    key: SealingKey = field(repr=False)
    role: str
    context: bytes = field(repr=False)

    def share(self, other: str, public: bytes) -> bytes:
        """This side's half, sealed to `other`; nothing where keys agree by themselves."""
        if self.key.kind == "classical":
            return b""
        return seal(public, self._half(other), self._info(self.role, other))

    def secret(self, other: str, public: bytes, share: bytes) -> bytes:
        """What this party and `other` alone know, from the other's key and what it has shared. A node that is both sides
        of a pair shares nothing."""
        if self.key.kind == "classical":
            return self.key.agree(public)
        own = self._half(other)
        peers = own if other == self.role else self.key.open(share, self._info(other, self.role))
        return own + peers if self.role < other else peers + own

    def _half(self, other: str) -> bytes:
        return derive_key(self.key.secret_bytes(), self._named(self.role, other))

    def _info(self, sender: str, receiver: str) -> bytes:
        return b"trimask/v1/" + self._named(sender, receiver)

    def _named(self, sender: str, receiver: str) -> bytes:
        return b"pair share\0" + self.context + f"{sender}>{receiver}".encode()


SEED, VECTOR = b"\x01", b"\x02"
"""The first byte of a payload: a 32-byte seed follows, or values of 8 bytes each."""


@dataclass(frozen=True)
class PayloadForm:
    """For which right provider a payload is, of how many, and how many values a whole share has, in which suite.

    `more` bytes follow the share; a share sent whole is no longer than `longest`, as a vector.
    """

    suite: str
    provider: int
    providers: int
    values: int
    more: int = 0
    longest: float = math.inf
