"""What a suite is: one way of collecting rows, as parts for a right provider, a left provider and a collector.

What suites share is below (`right`, `collector`); what differs is in a suite's own folder. Suites do not know each other.
To add one: a folder here with a `Suite`, and its name in `programs.roles.SUITES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from trimask_core.study.definition import Study
from trimask_server.collector.driver import BatchDriver
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.right.batches import BlockRules
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.host import Host
from trimask_server.settings.config import NodeRole
from trimask_server.store.interface import Erasers, Store

if TYPE_CHECKING:
    from trimask_server.collector.releases import Answers


class LeftPart(Protocol):
    """A suite at a left provider."""

    @property
    def services(self) -> Sequence[object]:
        """What it adds to the peer port."""
        ...

    def running(self) -> int:
        """How much of its work is under way, which a drained node finishes."""
        ...


class RightPart(LeftPart, BlockRules, Protocol):
    """A suite at a right provider: the same, and its rules for blocks."""


class CollectorPart(Protocol):
    """A suite at a collector."""

    @property
    def services(self) -> Sequence[object]:
        """What it adds to the peer port."""
        ...

    @property
    def answers(self) -> Answers | None:
        """Private answers about its studies, where it has studies with a budget."""
        ...

    def driver(self, study: Study, database: Store) -> BatchDriver:
        """The driver of one study. All it writes goes through `database`, which refuses once another worker drives it."""
        ...


class Suite(Protocol):
    """Makes the parts. A node has one of each suite, whether it has a study of it or not."""

    @property
    def name(self) -> str:
        """The suite's name, as in a study."""
        ...

    def erasers(self, role: NodeRole) -> Erasers:
        """Who erases a study in the tables that the suite has at a node of a role, beside those of the role itself."""
        ...

    def right(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> RightPart:
        """At a right provider."""
        ...

    def left(self, host: Host) -> LeftPart:
        """At a left provider."""
        ...

    def collector(self, host: Host, provider_status: ProviderStatus) -> CollectorPart:
        """At a collector."""
        ...
