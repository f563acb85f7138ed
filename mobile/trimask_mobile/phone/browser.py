"""The study's page in the browser, for whom this app cannot be read aloud: Kivy draws no text that a service could read."""

from __future__ import annotations

from typing import Any


def reads_aloud(activity: Any) -> bool:
    """Whether a screen reader is on: a service for which the screen is explored by touch, such as TalkBack. Others that are
    called accessibility services, a store of passwords say, read nothing aloud."""
    from jnius import cast

    manager = activity.getSystemService("accessibility")
    if manager is None:
        return False
    return bool(cast("android.view.accessibility.AccessibilityManager", manager).isTouchExplorationEnabled())


def browse(activity: Any, address: str) -> None:
    """Open an address in the browser. Links of a verified host would come back to this app: the selector is for any
    address of the web, and only browsers have that."""
    from jnius import autoclass

    intents, uri = autoclass("android.content.Intent"), autoclass("android.net.Uri")
    browsers = intents(intents.ACTION_VIEW)
    browsers.addCategory(intents.CATEGORY_BROWSABLE)
    browsers.setData(uri.fromParts("https", "", None))
    intent = intents(intents.ACTION_VIEW)
    intent.setData(uri.parse(address))
    intent.setSelector(browsers)
    activity.startActivity(intent)
