"""Draws the app's icon and its first picture into mobile/art: three discs, in the colours of the app's theme.

`python scripts/draw_icon.py`. No picture library: discs and squares with round corners, anti-aliased by their distance.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "mobile"))

from trimask_mobile.theme import COLOURS

ART = Path(__file__).parents[1] / "mobile" / "art"
# Centres and radius as shares of the side of a square, around its middle: the same figure as the survey page's icon.
DISCS = ((0.0, -0.19), (-0.22, 0.19), (0.22, 0.19))
RADIUS = 0.125

Colour = tuple[int, int, int]


def colour(name: str) -> Colour:
    """A colour of the theme."""
    text = COLOURS[name].lstrip("#")
    return int(text[0:2], 16), int(text[2:4], 16), int(text[4:6], 16)


def picture(
    side: int, figure: float, discs: Colour, ground: Colour | None, corner: float = 0.0
) -> list[bytes]:
    """Rows of RGBA: the discs, `figure` wide, in the middle; `ground` None is transparent; corners of that radius."""
    half, unit = side / 2, figure * side
    rows = []
    for y in range(side):
        row = bytearray()
        for x in range(side):
            dx, dy = x + 0.5 - half, y + 0.5 - half
            near = (
                min(((dx - cx * unit) ** 2 + (dy - cy * unit) ** 2) ** 0.5 for cx, cy in DISCS)
                - RADIUS * unit
            )
            on = min(1.0, max(0.0, 0.5 - near))
            if ground is None:
                row += bytes((*discs, round(255 * on)))
                continue
            out_x, out_y = (max(0.0, abs(d) - (half - corner * side)) for d in (dx, dy))
            edge = min(1.0, max(0.0, 0.5 + corner * side - (out_x**2 + out_y**2) ** 0.5)) if corner else 1.0
            mixed = (round(g + (d - g) * on) for g, d in zip(ground, discs, strict=True))
            row += bytes((*mixed, round(255 * edge)))
        rows.append(bytes(row))
    return rows


def png(rows: list[bytes]) -> bytes:
    """A PNG file of rows of RGBA."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(rows[0]) // 4, len(rows), 8, 6, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def pictures() -> dict[str, list[bytes]]:
    """Every file. Adaptive layers are 108 dp wide, of which the middle 66 dp are always seen (432 px at four a dp)."""
    white, primary, ground = colour("on_primary"), colour("primary"), colour("ground")
    return {
        "icon.png": picture(512, 0.9, white, primary, 0.22),
        "icon-foreground.png": picture(432, 0.6, white, None),
        "icon-background.png": picture(432, 0.0001, primary, primary),
        "splash.png": picture(640, 0.4, primary, ground),
    }


def main() -> None:
    """Write them."""
    ART.mkdir(exist_ok=True)
    for name, rows in pictures().items():
        (ART / name).write_bytes(png(rows))


if __name__ == "__main__":
    main()
