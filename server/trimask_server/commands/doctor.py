"""`trimask node doctor`: looks at a node's files, ports, certificate, store and peers, and says what to do, a line each."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sqlite3
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rich.table import Table
from rich.text import Text

from trimask_client.grpc_channel import open_channel, plain_errors
from trimask_core.basics.errors import ConfigError, ConnectionFailed, TrimaskError
from trimask_core.moments.report import FILE_NAME as MOMENTS_KEY
from trimask_core.moments.report import MomentsSecret
from trimask_core.study.party import Party, load_party, read_secret
from trimask_core.study.signed import SignedStudy
from trimask_proto.v1.node_pb2 import DescribeNodeRequest
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_server.commands.operator import Operator
from trimask_server.local.keys import CARD_FILE
from trimask_server.programs.node_lock import LOCK_FILE, refuse_folder, refuse_role, running
from trimask_server.right.sealing_keys import RING_FILE, SINGLE_FILE, load_ring
from trimask_server.runtime.audit import HEAD_FILE
from trimask_server.runtime.host import skew_seconds, skew_words
from trimask_server.runtime.key_files import (
    Finding,
    bad,
    certificate_findings,
    file_findings,
    fine,
    folder_findings,
    https_findings,
    mode_findings,
    name_findings,
    operator_findings,
    weak,
)
from trimask_server.runtime.metrics import LOW_BYTES, free_bytes
from trimask_server.runtime.ports import holder_of, taken
from trimask_server.runtime.tls import FILES
from trimask_server.settings.config import NodeConfig, NodeRole, load_own_config
from trimask_server.store.data_keys import FILE_NAME as STORAGE_KEYS
from trimask_server.store.data_keys import KeyRing
from trimask_server.store.database import sqlite_path
from trimask_terminal.options import print_json
from trimask_terminal.study_view import make_console

_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


def run_doctor(args: argparse.Namespace) -> int:
    """Examine, print, and say it by the exit status."""
    config, role = load_own_config(args.config)
    parties = [load_party(path) for path in args.party]
    if args.study is not None:
        study = SignedStudy.from_json(args.study.read_text(encoding="utf-8")).study
        parties += [party for party in study.parties.values() if party.name != config.name]
    found = list(examine(config, role, parties))
    in_order = all(finding.level == "ok" for finding in found)
    if args.json:
        print_json({"node": config.name, "ok": in_order, "checks": [finding.to_dict() for finding in found]})
        return 0 if in_order else 1
    table = Table(box=None, show_header=False, pad_edge=False)
    for column in range(3):
        table.add_column(overflow="fold", no_wrap=column == 0)
    for finding in found:
        said = Text(finding.said)
        if finding.fix:
            said.append(f"\n-> {finding.fix}", style="bold")
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), finding.about, said)
    console = make_console()
    console.print(table)
    wrong = sum(finding.level != "ok" for finding in found)
    console.print(f"\n{config.name}: {'everything is in order' if in_order else f'{wrong} to look at'}.")
    return 0 if in_order else 1


_PEER_SECONDS = 5.0
_MAY_WRITE = """
SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = %(schema)s)
  THEN has_schema_privilege(%(schema)s, 'CREATE')
  ELSE has_database_privilege(current_database(), 'CREATE') END
"""


def examine(config: NodeConfig, role: NodeRole, parties: Iterable[Party] = ()) -> Iterator[Finding]:
    """Every check; `parties` are peers to reach besides those of the node's studies."""
    barred = folder_findings(config.keys)
    if barred:
        yield from barred
        return
    yield from file_findings(config.keys, role, printed=bool(config.storage_key_command))
    yield from mode_findings(config.keys)
    if all((config.keys / name).exists() for name in FILES):  # otherwise it was reported already
        yield from certificate_findings(config.keys, int(time.time() * 1000))
        if config.https_listen:
            yield from https_findings(config.keys, int(time.time() * 1000))
        yield from name_findings(config.keys)
    yield from _contents(config, role)
    yield from _data(config, role)
    process = running(config)
    yield from _ports(config, process)
    yield from _card(config, process)
    yield from _store(config, role)
    operator = Operator(config)
    found = {party.tls_name: party for party in parties}
    if process is None:
        yield weak("node", "does not run", f"start it: `trimask {role} --config ...`, or its service")
    else:
        yield from _node(operator, process, found)
    yield from _peers(config, found.values())


def _contents(config: NodeConfig, role: NodeRole) -> Iterator[Finding]:
    """Whether the secrets are what their names say; those that are missing or not readable were reported already."""
    keys = config.keys
    readers: dict[str, Callable[[Path], object]] = {
        "identity.key": lambda _: read_secret(keys / "identity.key")
    }
    if role == "right":
        ring = RING_FILE if (keys / RING_FILE).exists() else SINGLE_FILE
        readers |= {ring: load_ring, MOMENTS_KEY: MomentsSecret.load}
    readers |= {STORAGE_KEYS: KeyRing.open, CARD_FILE: lambda _: load_party(keys / CARD_FILE)}
    for name, read in readers.items():
        if not os.access(keys / name, os.R_OK):
            continue
        try:
            read(keys)
        except TrimaskError as error:
            yield bad(str(keys / name), str(error), "put it back from your backup of the key folder")
    if role == "right":
        yield from _hybrid_key(config)
    if config.storage_key_command:
        try:
            KeyRing.open(keys, config.storage_key_command)
            yield fine("storage_key_command", "prints the keys of the store")
        except TrimaskError as error:
            yield bad("storage_key_command", str(error), "run it by hand, as the node's user")
    yield from operator_findings(keys)


def _hybrid_key(config: NodeConfig) -> Iterator[Finding]:
    """Whether there is a key for studies sealed hybrid, as they are unless their owner says otherwise."""
    with contextlib.suppress(TrimaskError):  # a ring that cannot be read was reported already
        if not load_ring(config.keys).newest("hybrid", int(time.time() * 1000)):
            yield weak(
                "sealing keys",
                "none is hybrid: this node can take no part in a new study, unless its owner asks for classical ones",
                "`trimask node rotate-sealing-key --config node.toml --overlap 30d`, then send owners the new card "
                "(`trimask node card`)",
            )


def _data(config: NodeConfig, role: NodeRole) -> Iterator[Finding]:
    folder = Path(config.data)
    try:
        refuse_folder(config)
    except ConfigError as error:
        yield bad(str(folder), str(error), "this is what a start would say")
        return
    try:
        refuse_role(role, config)
    except ConfigError as error:
        yield bad("role", str(error), "give the node.toml of this node")
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK):
        yield bad(
            str(folder),
            f"cannot be written by uid {os.getuid()}",
            "run this as the node's user, or chown the folder",
        )
        return
    names = (LOCK_FILE, HEAD_FILE, *(sqlite_path(config, role).name + end for end in ("", "-wal", "-shm")))
    for path in (folder / name for name in names):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            said = f"belongs to uid {path.stat().st_uid} and cannot be written by uid {os.getuid()}"
            yield bad(str(path), said, "chown it to the node's user")
    owner, keys_owner = there.stat().st_uid, config.keys.stat().st_uid
    if folder.exists() and owner != keys_owner:
        yield weak(
            str(folder),
            f"belongs to uid {owner}, the keys to uid {keys_owner}",
            "chown both to the node's user",
        )
    free = free_bytes(there)
    if free < LOW_BYTES:
        yield weak(str(folder), f"has {free >> 20:,} MiB left", "make room: a full disk stops intake")
    else:
        yield fine(str(folder), f"can be written, {free >> 30:,} GiB free")


def _ports(config: NodeConfig, process: int | None) -> Iterator[Finding]:
    for setting in ("listen", "peer_listen", "https_listen", "http_listen"):
        address = getattr(config, setting)
        if not address:
            continue
        try:
            why = taken(setting, address)
        except ConfigError as error:
            yield bad(setting, str(error), "write host:port")
            continue
        holder = holder_of(int(address.rpartition(":")[2])) if why else None
        if process is not None and why:
            known = (
                "" if holder in (None, process) else f" (by process {holder}, a worker or another program)"
            )
            yield fine(setting, f"{address} is listened on{known}")
        elif process is not None:
            yield bad(setting, f"nothing listens on {address}, though the node runs", "read its log")
        elif why:
            by = "" if holder is None else f" by process {holder}"
            yield bad(
                setting, f"{address}: {why}{by}", "stop that program, or choose another port in node.toml"
            )
        else:
            yield fine(setting, f"{address} is free")


def _card(config: NodeConfig, process: int | None) -> Iterator[Finding]:
    """Whether the card, which studies copy, names ports that the node listens on, or that something forwards to it."""
    try:
        card = load_party(config.keys / CARD_FILE)
    except TrimaskError:
        return  # reported already
    web = urlsplit(card.https)
    told = {
        "listen": card.address,
        "peer_listen": card.peer_address,
        "https_listen": f"{web.hostname}:{web.port or 443}" if web.hostname else "",
    }
    own = {setting: getattr(config, setting).rpartition(":")[2] for setting in told}
    for setting, address in told.items():
        listens, port = getattr(config, setting), address.rpartition(":")[2]
        if not address or port == own[setting]:
            continue
        about, said = str(config.keys / CARD_FILE), f"says {address}, and {setting} is {listens or 'not set'}"
        leads = port not in own.values() and _leads_here(config, address, web=setting == "https_listen")
        if process is not None and leads:
            yield fine(about, f"{said}: {address} leads here")
            continue
        fix = f"have that port forwarded to the node; or correct {setting}, or the card before a study is made with it"
        if process is None:
            yield weak(about, said, fix)
        else:
            yield bad(about, f"{said}: this node does not answer at {address}", fix)


def _leads_here(config: NodeConfig, address: str, *, web: bool) -> bool:
    """Whether TLS at an address shows this node's certificate; for browsers, a proxy may show one of its own."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the certificate itself is compared
    context.set_alpn_protocols(["http/1.1" if web else "h2"])
    try:
        context.load_cert_chain(config.keys / "tls.pem", config.keys / "tls.key")
        own = x509.load_pem_x509_certificates((config.keys / "tls.pem").read_bytes())[0]
        with (
            socket.create_connection((host.strip("[]"), int(port)), _PEER_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host.strip("[]")) as secured,
        ):
            return web or secured.getpeercert(binary_form=True) == own.public_bytes(Encoding.DER)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return False


def _store(config: NodeConfig, role: NodeRole) -> Iterator[Finding]:
    if config.store.url:
        yield from _server(config, role)
        return
    path = sqlite_path(config, role)
    if not os.access(config.data, os.R_OK | os.X_OK) and Path(config.data).exists():
        return  # reported already
    if not path.exists():
        yield fine("store", f"{path} is made at the first start")
        return
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            (said,) = store.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        said = str(error)
    if said == "ok":
        yield fine("store", f"{path} is whole")
        if role == "right":
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
                yield from _lost_ledgers(store.execute)
    else:
        yield bad("store", f"{path}: {said}", "`trimask node restore` puts a backup in its place")


def _lost_ledgers(execute: Callable[[str], Any]) -> Iterator[Finding]:
    """Studies of the moments suite that came back in a restored store without their ledger of deliveries."""
    for study_id, text in execute(
        "SELECT study_id, signed_study FROM restored_ledgers JOIN studies USING (study_id)"
        " WHERE lost = 1 AND state <> 'closed'"
    ).fetchall():
        if SignedStudy.from_json(text).study.suite.name == "moments":
            yield weak(
                "ledger",
                f"study {bytes(study_id).hex()[:12]} was restored without its ledger and delivers nothing more",
                "its owner closes it and gives up what waits (`trimask study abandon STUDY.json release-N`, or "
                "`trimask study end-releases`); other studies go on",
            )


def _server(config: NodeConfig, role: NodeRole) -> Iterator[Finding]:
    try:
        import psycopg

        from trimask_server.store.postgres_schema import schema_of
    except ImportError:
        yield bad("store", "needs the PostgreSQL client", "pip install 'trimask-server[postgres]'")
        return
    schema = config.store.schema or schema_of(config.name)
    try:
        with psycopg.connect(config.store.url, connect_timeout=5) as server:
            version = server.info.server_version // 10_000
            (may,) = server.execute(_MAY_WRITE, {"schema": schema}).fetchone() or (False,)
            made = server.execute("SELECT to_regclass(%s)", (f"{schema}.restored_ledgers",)).fetchone()
            lost = []
            if role == "right" and made != (None,):
                server.execute(f"SET search_path = {schema}")
                lost = list(_lost_ledgers(server.execute))
    except psycopg.Error as error:
        said = " ".join(str(error).split()) or type(error).__name__
        yield bad("store", said, "look at [store] url, the server, and ~/.pgpass or store.url_file")
        return
    if may:
        yield fine("store", f"PostgreSQL {version} answers")
        yield from lost
    else:
        said = f"PostgreSQL {version} answers, and the account may not make tables in the schema {schema}"
        yield bad(
            "store", said, f"CREATE SCHEMA {schema} AUTHORIZATION ..., or give it the right to create it"
        )


def _node(operator: Operator, process: int, found: dict[str, Party]) -> Iterator[Finding]:
    """How the running node is; the parties of its studies are added to `found`."""
    try:
        status = operator.status()
        own = status.identity
        for proposal in operator.proposals():
            study = operator.show(proposal.study_id.hex())[1].study
            found |= {p.tls_name: p for p in study.parties.values() if p.identity != own}
    except TrimaskError as error:
        yield bad("node", f"process {process} runs, but: {error}", "read its log")
        return
    drains = ", draining" if status.draining else ""
    yield fine(
        "node", f"process {process} answers, version {status.version}, studies: {status.studies}{drains}"
    )


def _peers(config: NodeConfig, parties: Iterable[Party]) -> Iterator[Finding]:
    keys, some = config.keys, False
    for party in parties:
        some, about = True, f"{party.name} ({party.peer_address})"
        before = int(time.time() * 1000)
        try:
            with (
                plain_errors(party.peer_address),
                open_channel(
                    party.peer_address, keys / "ca.pem", party.tls_name, keys / "tls.pem", keys / "tls.key"
                ) as channel,
            ):
                answer = NodeServiceStub(channel).DescribeNode(DescribeNodeRequest(), timeout=_PEER_SECONDS)
        except ConnectionFailed as error:
            tls = "SSL" in str(error) or "handshake" in str(error).lower()
            fix = (
                "both nodes need authorities in ca.pem that the other's certificate comes from"
                if tls
                else "is it up, and do firewalls let this machine through to that port?"
            )
            yield bad(about, "does not answer" + (", TLS fails" if tls else ""), fix)
            continue
        except TrimaskError as error:
            yield weak(about, f"answers, and refuses: {error}", "ask its operator")
            continue
        if answer.identity != party.identity:
            yield bad(
                about, "has a different identity than in the study", "ask its operator; compare fingerprints"
            )
            continue
        skew = skew_words(party.name, skew_seconds(before, answer.clock_time_ms, int(time.time() * 1000)))
        if skew:
            yield weak(about, skew, "keep both machines' clocks by NTP")
        else:
            yield fine(about, f"answers, version {answer.version}, the same time")
    if not some:
        yield fine("peers", "no study names any yet (or give --study STUDY.json, or --party CARD)")
