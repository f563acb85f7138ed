"""Random messages of any type, from its descriptor: values worth trying in every field, and its bytes broken."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

__all__ = ["broken", "messages"]

_INTEGERS = st.sampled_from(
    (0, 1, 2, 3, 4, 9, 17, 18, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1)
)
_SIGNED = st.one_of(_INTEGERS, _INTEGERS.map(lambda value: -value))
_FLOATS = st.one_of(st.floats(), st.sampled_from((0.0, 1.0, 1e-300, 1e308)))
_TEXT = st.one_of(
    st.text(max_size=20), st.sampled_from(("", "R1", "L1", "collector", "../../x", "1", "-1", "9" * 30))
)


def _clamp(values: st.SearchStrategy[int], low: int, high: int) -> st.SearchStrategy[int]:
    return values.map(lambda value: max(low, min(high, value)))


def _scalar(field: FieldDescriptor, bytes_known: list[bytes]) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return st.one_of(
                st.sampled_from(bytes_known),
                st.binary(max_size=80),
                st.sampled_from((b"", bytes(16), bytes(32), bytes(70_000))),
            )
        return _TEXT
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return _FLOATS
    if kind == FieldDescriptor.CPPTYPE_UINT32:
        return _clamp(_INTEGERS, 0, (1 << 32) - 1)
    if kind == FieldDescriptor.CPPTYPE_UINT64:
        return _INTEGERS
    if kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM):
        return _clamp(_SIGNED, -(1 << 31), (1 << 31) - 1)  # enums are open: any number comes through
    return _SIGNED


@st.composite
def messages(
    draw: st.DrawFn, descriptor: Descriptor, bytes_known: list[bytes], ids: dict[str, Any]
) -> Message:
    """A message; fields named in `ids` mostly have the id that is real, so that what is behind it is reached."""
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if draw(st.integers(0, 9)) == 0:
            continue
        if field.message_type is not None:
            inner = messages(field.message_type, bytes_known, ids)
            if field.is_repeated:
                getattr(message, field.name).extend(draw(st.lists(inner, max_size=3)))
            else:
                getattr(message, field.name).CopyFrom(draw(inner))
        elif field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(_scalar(field, bytes_known), max_size=3)))
        elif field.name in ids and draw(st.integers(0, 4)):
            setattr(message, field.name, ids[field.name])
        else:
            setattr(message, field.name, draw(_scalar(field, bytes_known)))
    return message


@st.composite
def broken(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes, perhaps cut, overwritten, or with a length that is not so."""
    at = draw(st.integers(0, len(data)))
    piece = draw(
        st.sampled_from((b"", b"\xff", b"\xff\xff\xff\xff\x7f", b"\x0a\xff\x01", b"\x00", b"\x0b\x0c"))
    )
    return draw(st.sampled_from((data, data, data, data[:at], data[:at] + piece + data[at:], data + piece)))
