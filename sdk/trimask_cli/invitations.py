"""Invitations in the forms people receive (links, a table for a mail merge, QR codes, a sheet to cut), and which were used.

That is asked of every right provider directly, and compared on the owner's machine. The owner's files say who was
invited; the providers know which public keys came with a submission. Neither learns what the other knows.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import segno

from trimask_cli.owner import CALL_SECONDS, owner_channel
from trimask_cli.study_file import write_secret
from trimask_core.basics.errors import ConfigError, ConnectionFailed, Refused, TrimaskError, VerificationError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key
from trimask_core.submit.invitation import Invitation, Link
from trimask_proto.v1.admission_pb2 import ListUsedInvitationsRequest, SignInvitationsRequest
from trimask_proto.v1.admission_pb2_grpc import InvitationServiceStub
from trimask_terminal.options import shown_time

BATCH = 500
_SECONDS = 60.0
_SIGNATURE_BYTES = 64
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_STYLE = """
body { font: 11pt/1.35 sans-serif; margin: 1.5em; color: #111; background: #fff; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(5.6cm, 1fr)); gap: 0.4cm; }
figure { margin: 0; padding: 0.35cm; border: 1px dashed #999; break-inside: avoid; text-align: center; }
figure svg { width: 4.4cm; height: 4.4cm; }
figcaption { font-size: 8.5pt; }
@media print { body { margin: 0; } h1, p { break-after: avoid; } }
"""


def link_address(study: Study, host: str = "", *, for_app: bool = False) -> str:
    """Where links to a study lead: to the host of its page, the first unless one is named, or to its collector."""
    if study.web is None:
        if host:
            raise ConfigError(f"{host}: this study has no [web], so no page; its links are for the app")
        return study.collector.address
    if for_app:
        if host:
            raise ConfigError("a link for the app leads to the collector; give --host or --app, not both")
        return study.collector.address
    if host and host not in study.web.hosts:
        raise ConfigError(f"{host}: the study names {', '.join(study.web.hosts)}")
    return host or study.web.hosts[0]


def open_link(study: Study, address: str = "") -> Link:
    """The one link of an open study."""
    return Link(address or link_address(study), study.id)


def make_invitations(
    study: Study,
    owner: Path,
    count: int,
    expires_ms: int,
    progress: Callable[[int], None],
    address: str = "",
) -> list[Link]:
    """Draw `count` invitations and sign them as the owner, or have their public keys signed by the right provider that
    admits; every one is checked before anybody is sent it.
    """
    if study.admission != "invited":
        raise Refused(Reason.NOT_YOUR_ROLE, "this study is open: anybody may submit, and one link is for all")
    source, links = SystemRandom(), list[Link]()
    sign = _sign_as_owner if study.admission_signer == "owner" else _have_signed
    while len(links) < count:
        wanted = min(BATCH, count - len(links))
        drawn = [Invitation.draw(study.id, expires_ms, source) for _ in range(wanted)]
        for invitation in sign(study, owner, drawn):
            invitation.verify(study.admits)
            links.append(Link(address or link_address(study), study.id, invitation))
        progress(len(links))
    return links


def _sign_as_owner(study: Study, owner: Path, drawn: list[Invitation]) -> list[Invitation]:
    key = admission_key(owner)
    if key.public != study.admits:
        raise ConfigError(f"the key in {owner} is not this study's owner key")
    return [invitation.signed_with(key) for invitation in drawn]


def _have_signed(study: Study, owner: Path, drawn: list[Invitation]) -> list[Invitation]:
    request = SignInvitationsRequest(
        study_id=study.id,
        public_keys=b"".join(invitation.key.public for invitation in drawn),
        expire_time_ms=drawn[0].expires_ms,
    )
    with owner_channel(study, owner, study.admission_signer) as channel:
        signatures = InvitationServiceStub(channel).SignInvitations(request, timeout=_SECONDS).signatures
    if len(signatures) != len(drawn) * _SIGNATURE_BYTES:
        raise VerificationError(f"{study.admission_signer} did not answer with {len(drawn)} signatures")
    starts = range(0, len(signatures), _SIGNATURE_BYTES)
    return [
        invitation.signed(signatures[start : start + _SIGNATURE_BYTES])
        for invitation, start in zip(drawn, starts, strict=True)
    ]


def write_links(path: Path, links: list[Link]) -> None:
    """One link a line."""
    write_secret(path, "".join(f"{link}\n" for link in links))


def write_csv(path: Path, links: list[Link]) -> None:
    """number, link, expires: for a mail merge."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("number", "link", "expires"))
    for number, link in enumerate(links, 1):
        table.writerow([_plain(cell) for cell in (str(number), str(link), _expiry(link))])
    write_secret(path, text.getvalue())


def _plain(cell: str) -> str:
    """A cell escaped so that no spreadsheet reads it as a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def draw_codes(links: list[Link], progress: Callable[[int], None]) -> list[segno.QRCode]:
    """A QR code for each invitation, drawn once for both files and sheet because drawing is slow."""
    codes = []
    for number, link in enumerate(links, 1):
        codes.append(segno.make_qr(str(link), error="m"))
        progress(number)
    return codes


def write_codes(folder: Path, codes: list[segno.QRCode], kind: str) -> None:
    """A QR code a file, SVG or PNG."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    digits = max(4, len(str(len(codes))))
    for number, code in enumerate(codes, 1):
        body = io.BytesIO()
        code.save(body, kind=kind, scale=4, border=4)
        write_secret(folder / f"invitation-{number:0{digits}}.{kind}", body.getvalue())


def write_sheet(path: Path, study: Study, links: list[Link], codes: list[segno.QRCode]) -> None:
    """A page of QR codes to print and cut; it loads nothing from anywhere."""
    figures = []
    for number, (link, code) in enumerate(zip(links, codes, strict=True), 1):
        caption = f"No. {number}" + (f", until {_expiry(link)[:10]}" if link.invitation else "")
        drawn = code.svg_inline(border=4, omitsize=True)
        figures.append(f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>")
    title = html.escape(study.title)
    one_each = "One code is for one person, and takes one set of answers. " if links[0].invitation else ""
    how = (
        f"Scan it with your phone's camera: it opens {html.escape(links[0].page)} in the browser, or the survey app."
        if links[0].on_web
        else "Open the survey app and scan it."
    )
    write_secret(
        path,
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>\n'
        f"<h1>{title}</h1>\n<p>{one_each}{how} Study "
        f"{study.id.hex()[:16]}, contact {html.escape(study.contact)}.</p>\n"
        f"<main>\n{chr(10).join(figures)}\n</main></html>\n",
    )


def _expiry(link: Link) -> str:
    return shown_time(link.invitation.expires_ms) if link.invitation is not None else ""


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
