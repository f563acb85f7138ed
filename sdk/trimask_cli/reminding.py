"""Which invitations were used: asked of every right provider directly, compared on the owner's machine.

The owner's files say who was invited; the providers know which public keys came with a submission. Neither learns what
the other knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trimask_cli.invitations import write_secret
from trimask_cli.owner import CALL_SECONDS, owner_channel
from trimask_core.errors import ConfigError, ConnectionFailed, Refused, TrimaskError
from trimask_core.invitation import Link
from trimask_core.study import Study
from trimask_proto.v1.admission_pb2 import ListUsedInvitationsRequest
from trimask_proto.v1.admission_pb2_grpc import InvitationServiceStub

__all__ = ["Compared", "Made", "Use", "ask", "compare", "read_made", "write_unused"]

_KEY_BYTES = 32
# An invitation in a line of a mail merge, which may have addresses of other pages too.
_LINK = re.compile(
    r"(?:trimask://[^\s\"',;<>]*/join/|https?://[^\s\"',;<>#]*/s/[^\s\"',;<>#]*#)[^\s\"',;<>]+"
)


@dataclass(frozen=True)
class Made:
    """A file of invitations, as `trimask study invite` wrote it or with columns added: each line with its link's key."""

    heading: str  # a first line without a link
    lines: tuple[tuple[str, bytes, int], ...]  # the line, the public key, when it ends


@dataclass(frozen=True)
class Use:
    """What right providers said, by role; `errors` of those that did not."""

    used: dict[str, int]
    keys: dict[str, frozenset[bytes]]
    errors: dict[str, str]

    @property
    def agree(self) -> bool:
        """Whether all answered and count the same."""
        return not self.errors and len(set(self.used.values())) <= 1


@dataclass(frozen=True)
class Compared:
    """The owner's files beside what was used."""

    use: Use
    made: int
    unused: tuple[str, ...]
    expired: int
    partly: int
    headings: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """For programs. The lines themselves are in the file alone."""
        said: dict[str, object] = {
            "used": self.use.used, "did_not_answer": self.use.errors, "agree": self.use.agree,
        }  # fmt: skip
        if self.made:
            said |= {
                "made": self.made, "unused": len(self.unused), "expired_unused": self.expired,
                "used_at_some_providers_only": self.partly,
            }  # fmt: skip
        return said

    def lines(self, written: Path | None) -> list[str]:
        """For people."""
        said = [f"used at {role}: {count:,}" for role, count in self.use.used.items()]
        said += [f"{role} did not answer: {error}" for role, error in self.use.errors.items()]
        if len(set(self.use.used.values())) > 1:
            said.append(
                "They differ: submissions may be on their way. If it stays so, a provider was restored from a backup, or "
                "does not count what it accepts."
            )
        if self.made:
            said.append(
                f"{self.made:,} made: {self.made - len(self.unused) - self.expired:,} used, {len(self.unused):,} not used, "
                f"{self.expired:,} expired unused."
            )
            if self.partly:
                said.append(f"{self.partly:,} of those used have not reached every provider yet.")
        if written is not None:
            said.append(f"Not used, to remind: {written}")
        return said


def read_made(path: Path, study_id: bytes) -> Made:
    """The invitations in a file, one a line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    heading, lines = "", []
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINK.search(line)
        if found is None:
            if number == 1:
                heading = line
            elif line.strip():
                raise ConfigError(f"{path}, line {number}: there is no invitation link in it")
            continue
        link = Link.parse(found[0])
        if link.invitation is None or link.study_id != study_id:
            raise ConfigError(f"{path}, line {number}: this is no invitation to this study")
        lines.append((line, link.invitation.key.public, link.invitation.expires_ms))
    return Made(heading, tuple(lines))


def ask(study: Study, owner: Path, *, with_keys: bool) -> Use:
    """Every right provider, one after the other."""
    used: dict[str, int] = {}
    keys: dict[str, frozenset[bytes]] = {}
    errors: dict[str, TrimaskError] = {}
    if study.admission == "open":
        raise ConfigError(
            "this study is open: anybody may submit, with one link for all, so there are no invitations"
        )
    for number in range(1, len(study.right) + 1):
        role = f"R{number}"
        try:
            used[role], keys[role] = _ask_one(study, owner, role, with_keys=with_keys)
        except TrimaskError as error:
            errors[role] = error
    told = {role: str(error) for role, error in errors.items()}
    if not used:
        first = next(iter(errors.values()))
        if isinstance(first, Refused):
            raise first
        raise ConnectionFailed(
            "no right provider answered; " + "; ".join(f"{role}: {told[role]}" for role in told)
        )
    return Use(used, keys, told)


def _ask_one(study: Study, owner: Path, role: str, *, with_keys: bool) -> tuple[int, frozenset[bytes]]:
    found: set[bytes] = set()
    request = ListUsedInvitationsRequest(study_id=study.id, with_keys=with_keys)
    with owner_channel(study, owner, role) as channel:
        stub = InvitationServiceStub(channel)
        while True:
            answer = stub.ListUsedInvitations(request, timeout=CALL_SECONDS)
            joined = answer.public_keys
            found.update(joined[at : at + _KEY_BYTES] for at in range(0, len(joined), _KEY_BYTES))
            if not answer.next_page_token:
                return answer.used, frozenset(found)
            request.page_token = answer.next_page_token


def compare(made: list[Made], use: Use, now_ms: int) -> Compared:
    """An invitation is used once one provider has seen it: a person who is on the way is not reminded."""
    seen = frozenset[bytes]().union(*use.keys.values())
    everywhere = frozenset.intersection(*use.keys.values()) if use.keys else frozenset()
    every = [item for file in made for item in file.lines]
    left = [(line, ends) for line, key, ends in every if key not in seen]
    return Compared(
        use,
        made=len(every),
        unused=tuple(line for line, ends in left if ends > now_ms),
        expired=sum(ends <= now_ms for _, ends in left),
        partly=sum(key in seen - everywhere for _, key, _ in every),
        headings=tuple(dict.fromkeys(file.heading for file in made if file.heading)),
    )


def write_unused(path: Path, found: Compared) -> None:
    """Write the owner's lines of unused invitations, for the next mail merge, to a file that only the owner can read."""
    write_secret(path, "".join(f"{line}\n" for line in (*found.headings[:1], *found.unused)))
