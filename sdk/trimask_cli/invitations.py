"""Invitations in the forms people receive: links, a table for a mail merge, QR codes, a sheet to print and cut."""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Callable
from pathlib import Path

import segno

from trimask_cli.owner import owner_channel
from trimask_core.errors import ConfigError, Refused, VerificationError
from trimask_core.invitation import Invitation, Link
from trimask_core.party_files import admission_key
from trimask_core.randomness import SystemRandom
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_proto.v1.admission_pb2 import SignInvitationsRequest
from trimask_proto.v1.admission_pb2_grpc import InvitationServiceStub
from trimask_terminal.options import shown_time

__all__ = [
    "BATCH",
    "draw_codes",
    "link_address",
    "make_invitations",
    "open_link",
    "write_codes",
    "write_csv",
    "write_links",
    "write_secret",
    "write_sheet",
]

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
        raise Refused(Reason.STUDY_OPEN, "this study is open: anybody may submit, and one link is for all")
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


def write_secret(path: Path, content: str | bytes) -> None:
    """Write a new file that only its owner can read: anybody who has an invitation can use it."""
    data = content.encode() if isinstance(content, str) else content
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already; invitations are never written over") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
