"""The pages of docs that are written from what the code reads: the node file, the study file, permissions, refusals.

`python scripts/reference_pages.py` writes them all; tests/meta/test_operations_docs.py holds the pages to it. A setting's
words are beside the setting, a call's beside its rule, a refusal's beside its reason; here is how they are laid out.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import study_reference

from trimask_core.basics.refusals import REASON_KEY, RETRY_KEY, Alarm, Reason, Retry, Status
from trimask_server.access.permissions import SERVICES, Role
from trimask_server.settings.config import TYPE_WORDS, NodeConfig, StoreConfig

DOCS = Path(__file__).parents[1] / "docs"


_NODE_HEAD = """# The node file

For operators: every setting of `node.toml` with its type and default, written by
`python scripts/reference_pages.py`. An unknown setting is refused with the name of the nearest known one. Paths are
relative to the file.
"""
_STORE = """## `[store]`

Without `url` or `url_file` the store is a SQLite file in `data`.
"""


def node_page() -> str:
    """docs/node-file.md."""
    return "\n".join([_NODE_HEAD, _settings(NodeConfig), _STORE, _settings(StoreConfig)])


def _settings(kind: type[NodeConfig | StoreConfig]) -> str:
    lines = []
    for item in fields(kind):
        shown = TYPE_WORDS.get(str(item.type), "a table").removeprefix("a ").replace(" or ", "/")
        default = _default(item.default)
        lines.append(f"- `{item.name}` ({shown}{default and '; '}{default}): {item.metadata['words']}")
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    if value is MISSING:
        return "required"
    if isinstance(value, StoreConfig) or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{'true' if value else 'false'}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


KNOWN_BY = {
    Role.ANYONE: "nothing: a TLS connection to a public port",
    Role.DEVICE: "nothing but what it sends: a sealed component and, in an invited study, an invitation",
    Role.RESEARCHER: "a token of the study's owner (`authorization: Bearer`), scoped, expiring, revocable",
    Role.OWNER: "the certificate with the name `owner_tls_name`, on a peer port (of a right provider, where it admits)",
    Role.OPERATOR: "the certificate pinned in the node's own keys (`operator/tls.pem`), on its peer port",
    Role.COLLECTOR: "its certificate, whose DNS name the study gives, on the peer port",
    Role.RIGHT: "likewise",
    Role.LEFT: "likewise",
}


def permissions_page() -> str:
    """docs/permissions.md."""
    lines = [
        "# Who may call what",
        "",
        "For operators and reviewers: who may make each call, written by `python scripts/reference_pages.py` from the",
        "table that nodes enforce; a test makes every call in every role. Everybody else is refused and counted by",
        "[reason](refusals.md). Collector, right and left are those of the study that the request names.",
        "",
        *(f"- {role}: {words}" for role, words in KNOWN_BY.items()),
        "",
        "## Calls",
        "",
        "*Unless draining*: not while the node drains. *HTTPS too*: on `https_listen` as well, to pages of hosts that the",
        "study names in `[web]` and to programs that send no origin ([web](web.md#nodes)). Health checks and reflection are",
        "for everybody who can connect to gRPC. A call that a port does not serve is refused as `not_your_role`.",
        "",
    ]
    by_suite: dict[str, list[str]] = {}
    for service, methods in SERVICES.items():
        if not service.startswith("trimask_proto."):
            continue
        for rule in dict.fromkeys(methods.values()):
            named = ", ".join(method for method, its in methods.items() if its == rule)
            who = ", ".join(role for role in Role if role in rule.roles)
            notes = [words for words in (rule.party and rule.party.words, rule.note) if words]
            if Role.RESEARCHER in rule.roles and rule.scope:
                notes.append(f"the token's scope: {rule.scope}")
            if rule.new_work:
                notes.append("unless draining")
            if rule.browser:
                notes.append("HTTPS too")
            line = "; ".join([f"- `{service.rpartition('.')[2]}` {named}: **{who}**", *notes])
            by_suite.setdefault(rule.suite, []).append(line)
    for suite, calls in by_suite.items():
        lines += [*(("", f"## Of the suite `{suite}`", "") if suite else ()), *calls]
    return "\n".join([*lines, ""])


_REFUSALS = """# Why a request is refused

For whoever meets a reason: what it means, and whether to ask again. Written by `python scripts/reference_pages.py`. The
reason is in the trailing metadata of the answer under `{reason_key}`, beside the gRPC status; `{retry_key}` there says how
long to wait, where the node knows. A device may meet those with a *. Of a later version's reason the status decides: never
after {never}; soon after {soon}; later after all others.

{reasons}
## Counted beside refusals

Refusals are counted by reason (`trimask study status`, `trimask_refusals_total`); so are attempts at a block that a node
gives up for one, as `attempt_` and the reason, and what nodes notice themselves ([what to do about
each](operations.md#alerts-and-refusals)): {alarms}.
"""

_AGAIN = {
    Retry.NEVER: "Waiting does not help.",
    Retry.LATER: "Something has to change first; a device tries again by itself, less and less often.",
    Retry.SOON: "A node that asks another repeats the call until its deadline.",
}


def refusals_page() -> str:
    """docs/refusals.md."""
    return _REFUSALS.format(
        reason_key=REASON_KEY,
        retry_key=RETRY_KEY,
        never=", ".join(code.name for code in Status if code.retry is Retry.NEVER),
        soon=", ".join(code.name for code in Status if code.retry is Retry.SOON),
        reasons="\n".join(_reasons(retry, about) for retry, about in _AGAIN.items()),
        alarms=", ".join(f"`{item}`" for item in sorted(Alarm)),
    )


def _reasons(retry: Retry, about: str) -> str:
    lines = [f"## Again: {retry}", "", about, ""]
    for item in sorted(Reason):
        if item.retry is retry:
            name = f"`{item}`\\*" if item.told else f"`{item}`"
            lines.append(f"- {name}: {item.meaning}")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Each page's name below docs, and its text."""
    return {
        "node-file.md": node_page(),
        "study-file.md": study_reference.render_page(),
        "permissions.md": permissions_page(),
        "refusals.md": refusals_page(),
    }


if __name__ == "__main__":
    for page, text in pages().items():
        (DOCS / page).write_text(text, encoding="utf-8")
