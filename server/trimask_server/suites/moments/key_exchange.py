"""What right providers of a study tell each other first: exchange keys, and contributions to the challenge key.

Everything is asked for, nothing is pushed: a provider that was restarted asks again. A contribution is taken only if it is
the one its provider committed to with its approval, so no study ever has a second challenge key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import Pairing, SealingKey, require_kind, seal, verify
from trimask_core.moments.report import MomentsSecret, challenge_key, contribution_hash
from trimask_core.study.definition import Study
from trimask_proto.v1 import moments_pb2
from trimask_proto.v1.moments_pb2_grpc import MomentsPeerServiceStub
from trimask_server.runtime.context import NodeContext
from trimask_server.suites.moments.batch_store import exchange_key_message


@dataclass(frozen=True)
class _Peer:
    exchange_key: bytes
    contribution: bytes = field(repr=False)
    secret: bytes = field(repr=False)


class KeyExchange:
    """What this right provider knows of the others, study by study, in memory."""

    def __init__(self, node: NodeContext, secret: MomentsSecret) -> None:
        self._node = node
        self._secret = secret
        self._peers: dict[tuple[bytes, str], _Peer] = {}
        node.studies.on_forget.append(self._forget)

    def _forget(self, study_id: bytes) -> None:
        for key in [key for key in self._peers if key[0] == study_id]:
            del self._peers[key]

    def secret(self, study: Study) -> MomentsSecret:
        """This provider's secret, if it is the one it approved the study with: another would make a second challenge."""
        if self._secret.commitment(study.id) != study.commitments[int(self._node.role_in(study)[1:]) - 1]:
            raise Refused(
                Reason.LEDGER_LOST,
                "this node's moments.key is not the one it approved the study with; put that file back",
            )
        return self._secret

    def own_key(self, study: Study) -> SealingKey:
        """This provider's exchange key for a study."""
        return self.secret(study).exchange_key(study.id, study.sealing)

    async def peer_key(self, study: Study, role: str) -> bytes:
        """Another right provider's exchange key."""
        return (await self._peer(study, role)).exchange_key

    async def pair_secret(self, study: Study, role: str) -> bytes:
        """What this provider and another one alone know, the same as long as the study is."""
        return (await self._peer(study, role)).secret

    async def challenge_key(self, study: Study) -> bytes:
        """The study's challenge key, once every right provider has answered."""
        own = self._node.role_in(study)
        contributions = [
            self.secret(study).contribution(study.id)
            if role == own
            else (await self._peer(study, role)).contribution
            for role in study.right_roles
        ]
        return challenge_key(study.id, contributions)

    async def _peer(self, study: Study, role: str) -> _Peer:
        known = self._peers.get((study.id, role))
        if known is None:
            known = self._peers[study.id, role] = await self._ask(study, role)
        return known

    async def _ask(self, study: Study, role: str) -> _Peer:
        node, own, key = self._node, self._node.role_in(study), self.own_key(study)
        message = exchange_key_message(study.id, own, key.public)
        request = moments_pb2.IntroduceRequest(
            study_id=study.id,
            exchange_key=key.public,
            signature=node.keys.identity.sign("exchange-key", message),
        )
        stub = MomentsPeerServiceStub(node.peers.channel(study.party(role)))
        answer = await node.peers.call(stub.Introduce, request)
        _verify_key(study, role, answer.exchange_key, answer.signature)
        contribution = key.open(answer.sealed_contribution, _info(study, role, own))
        committed = study.commitments[int(role[1:]) - 1]
        if contribution_hash(contribution) != committed:
            raise VerificationError(
                f"{role} sent a contribution to the challenge key other than the one it committed to"
            )
        secret = Pairing(key, own, study.binding).secret(role, answer.exchange_key, answer.sealed_share)
        return _Peer(answer.exchange_key, contribution, secret)

    def answer(
        self, study: Study, caller: str, request: moments_pb2.IntroduceRequest
    ) -> moments_pb2.IntroduceResponse:
        """Tell a right provider of the study this one's key and contribution."""
        _verify_key(study, caller, request.exchange_key, request.signature)
        own, key = self._node.role_in(study), self.own_key(study)
        message = exchange_key_message(study.id, own, key.public)
        contribution = self.secret(study).contribution(study.id)
        return moments_pb2.IntroduceResponse(
            exchange_key=key.public,
            signature=self._node.keys.identity.sign("exchange-key", message),
            sealed_contribution=seal(request.exchange_key, contribution, _info(study, own, caller)),
            sealed_share=Pairing(key, own, study.binding).share(caller, request.exchange_key),
        )


def _verify_key(study: Study, role: str, public: bytes, signature: bytes) -> None:
    message = exchange_key_message(study.id, role, public)
    verify(study.party(role).identity, "exchange-key", message, signature, f"the exchange key of {role}")
    require_kind(public, study.sealing, role)


def _info(study: Study, sender: str, receiver: str) -> bytes:
    return b"trimask/v1/contribution\0" + study.binding + f"{sender}>{receiver}".encode()
