"""Callers by address: who counts as one, how often one may call, and how places are shared out when they are short."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Generic, TypeVar
from urllib.parse import unquote

_ADDRESSES = 65_536
Holder = TypeVar("Holder", bound=Hashable)


def _host(peer: str) -> IPv4Address | IPv6Address | str:
    """The other end of a connection, given gRPC's word for it."""
    host = unquote(peer).rpartition(":")[0].partition(":")[2].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


class Addresses:
    """Tells callers apart. Behind a declared proxy everybody has its address, which then says nothing."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = [ip_network(proxy) for proxy in proxies]

    def of(self, peer: str) -> str | None:
        """Who a caller is counted as: an IPv4 address, or the /64 of an IPv6 one, which is one household's; None for one
        that comes through a proxy."""
        host = _host(peer)
        if isinstance(host, str):
            return host
        if any(host in proxy for proxy in self._proxies):
            return None
        return str(host if isinstance(host, IPv4Address) else ip_network((host, 64), strict=False))


class TokenBuckets:
    """One bucket an address: `burst` calls at once, then `rate` a second. The longest unseen are forgotten."""

    def __init__(self, rate: float, burst: int, now_ms: Callable[[], int]) -> None:
        self._rate = rate
        self._burst = max(1, burst)
        self._now_ms = now_ms
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, address: str) -> int:
        """0 if the call may pass, else the milliseconds after which it may."""
        if self._rate <= 0:
            return 0
        now = self._now_ms()
        level, since = self._buckets.pop(address, (float(self._burst), now))
        level = min(self._burst, level + max(0, now - since) * self._rate / 1000)
        wait = 0 if level >= 1 else max(1, round((1 - level) / self._rate * 1000))
        self._buckets[address] = (level if wait else level - 1, now)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return wait


class Shares(Generic[Holder]):
    """A number of places, which anybody may take while there is room and which addresses share when there is none.

    Then an address that holds most loses a place, the one it has held for longest: one address cannot take a place from
    another that holds fewer, and the young are spared. Where all hold as many, each has its place until `most` others came.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._turn = 0
        self._address: dict[Holder, object] = {}
        self._held: dict[
            object, dict[Holder, tuple[bool, int]]
        ] = {}  # by address: whether firm, since what turn

    def __len__(self) -> int:
        return len(self._address)

    def __contains__(self, holder: Holder) -> bool:
        return holder in self._address

    def enter(self, holder: Holder, address: str | None) -> Holder | None:
        """Give a place; who has lost its own for that, if there was no room. None counts as an address of its own."""
        counted = ("alone", holder) if address is None else address
        self._address[holder] = counted
        self._held.setdefault(counted, {})
        self.renew(holder)
        if len(self._address) <= self._most:
            return None
        most = max(map(len, self._held.values()))
        rivals = [one for held in self._held.values() if len(held) == most for one in held.items()]
        loses = min(rivals, key=lambda rival: rival[1])[0]
        self.leave(loses)
        return loses

    def renew(self, holder: Holder, *, firm: bool = False) -> None:
        """As if it had come now; an address loses a `firm` place only if it has no other."""
        if holder in self._address:
            self._turn += 1
            self._held[self._address[holder]][holder] = (firm, self._turn)

    def leave(self, holder: Holder) -> None:
        """Free a place; nothing happens for who has none."""
        if holder in self._address:
            counted = self._address.pop(holder)
            del self._held[counted][holder]
            if not self._held[counted]:
                del self._held[counted]
