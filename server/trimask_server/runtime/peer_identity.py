"""Who makes a call: the DNS names in a certificate, and the roles a study gives them.

A node is known to its peers by the DNS name in its certificate, which the study names as `tls_name`. That holds for
certificates of a private authority and for public ones alike, and survives their renewal.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import grpc
from cryptography import x509

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study

Context = grpc.aio.ServicerContext[Any, Any]


def peer_names(context: Context) -> frozenset[str]:
    """The DNS names in the caller's certificate; empty on a connection without one.

    Only those: an authority that checks who has a domain vouches for no URI, mail address or common name beside it. gRPC
    ends a name at a zero byte, so what it says is held against the certificate itself.
    """
    auth = context.auth_context()
    names = frozenset(bytes(name).decode() for name in auth.get("peer_dns", []))
    certificates = [bytes(item) for item in auth.get("x509_pem_cert", [])]
    return names & _dns_names(certificates[0]) if certificates else names


@lru_cache(maxsize=1024)
def _dns_names(pem: bytes) -> frozenset[str]:
    try:
        found = x509.load_pem_x509_certificate(pem).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
        return frozenset(names.get_values_for_type(x509.DNSName))
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()


def require_role(context: Context, study: Study, roles: Iterable[str]) -> str:
    """Which of the roles in the study a caller plays; refused if it is none."""
    names = peer_names(context)
    wanted = list(roles)
    found = next((role for role in wanted if study.party(role).tls_name in names), None)
    if found is None:
        raise Refused(Reason.NOT_YOUR_ROLE, f"only {' or '.join(wanted) or 'nobody'} may call this")
    return found


def require_other_right(context: Context, study: Study, own: str) -> str:
    """Which of the other right providers of a study calls; refused if it is none of them."""
    names = peer_names(context)
    for k, party in enumerate(study.right, 1):
        if f"R{k}" != own and party.tls_name in names:
            return f"R{k}"
    raise Refused(Reason.NOT_YOUR_ROLE, "only another right provider of the study may call this")


def require_suite(study: Study, name: str) -> None:
    """Refuse a call of one suite about a study of another."""
    if study.suite.name != name:
        raise Refused(
            Reason.MALFORMED,
            f"this call is for studies of the {name} suite, and this is one of {study.suite.name}",
        )
