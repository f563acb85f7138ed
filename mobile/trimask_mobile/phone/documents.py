"""Saving a file where the person says: the system's own picker, which needs no permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_REQUEST, _OK = 0x5AFE, -1  # ours; Activity.RESULT_OK


class Documents:
    """One picker at a time. `bind` is `android.activity.bind`, `post` calls something on the screen's thread."""

    def __init__(
        self, activity: Any, bind: Callable[..., None], post: Callable[[Callable[[], None]], None]
    ) -> None:
        self._activity, self._post = activity, post
        self._text = ""
        self._saved: Callable[[str], None] | None = None
        self._failed: Callable[[str], None] = lambda _why: None
        bind(on_activity_result=self._chosen)

    def save(self, name: str, text: str, saved: Callable[[str], None], failed: Callable[[str], None]) -> None:
        """Ask where; then `saved` with the name it has there, or `failed` with the reason; neither, if nothing is chosen."""
        from jnius import autoclass

        intents, string = autoclass("android.content.Intent"), autoclass("java.lang.String")
        intent = intents(intents.ACTION_CREATE_DOCUMENT)
        intent.addCategory(intents.CATEGORY_OPENABLE)
        intent.setType("application/json")
        intent.putExtra(intents.EXTRA_TITLE, string(name))
        self._text, self._saved, self._failed = text, saved, failed
        self._activity.startActivityForResult(intent, _REQUEST)

    def _chosen(self, request: int, result: int, intent: Any) -> None:
        """On Android's own thread. A picker that an earlier process opened has nothing to be written."""
        saved, failed = self._saved, self._failed
        if request != _REQUEST or saved is None:
            return
        text, self._text, self._saved = self._text, "", None
        where = None if result != _OK or intent is None else intent.getData()
        if where is None:
            return
        try:
            self._write(where, text)
            name = self._name(where)
        except Exception as error:  # noqa: BLE001 - Java raises what it likes; the person is told
            why = str(getattr(error, "classname", None) or type(error).__name__).rpartition(".")[2]
            self._post(lambda: failed(why))
        else:
            self._post(lambda: saved(name))

    def _write(self, where: Any, text: str) -> None:
        stream = self._activity.getContentResolver().openOutputStream(where, "wt")  # what was there goes
        try:
            stream.write((text + "\n").encode())
        finally:
            stream.close()

    def _name(self, where: Any) -> str:
        """What the person called it."""
        cursor = self._activity.getContentResolver().query(where, None, None, None, None)
        if cursor is None:
            return str(where.getLastPathSegment())
        try:
            column = cursor.getColumnIndex("_display_name")  # OpenableColumns.DISPLAY_NAME
            found = cursor.getString(column) if column >= 0 and cursor.moveToFirst() else None
        finally:
            cursor.close()
        return str(found or where.getLastPathSegment())
