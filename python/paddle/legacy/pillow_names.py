"""Pillow's drawing objects with the methods that Pillow 10 has removed: `textsize` and `getsize`."""

from __future__ import annotations

from typing import Any

from PIL import ImageDraw, ImageFont

__all__: list[str] = []


def _sized(font: Any) -> Any:
    """`font` with the methods `getsize` and `getoffset`."""
    if not hasattr(font, "getsize"):
        font.getsize = lambda text, *a, **k: font.getbbox(text, *a, **k)[2:]
        font.getoffset = lambda text: font.getbbox(text)[:2]
    return font


def draw(im: Any, mode: str | None = None) -> Any:
    """As PIL.ImageDraw.Draw, whose result has the method `textsize`."""
    made: Any = ImageDraw.Draw(im, mode)

    def textsize(text: str, font: Any = None, *args: Any, **kwargs: Any) -> tuple[int, int]:
        left, top, right, bottom = made.textbbox((0, 0), text, font, **kwargs)
        return int(right), int(bottom)

    if not hasattr(made, "textsize"):
        made.textsize = textsize
    return made


def truetype(*args: Any, **kwargs: Any) -> Any:
    """As PIL.ImageFont.truetype, whose result has the method `getsize`."""
    return _sized(ImageFont.truetype(*args, **kwargs))


def load_default(*args: Any, **kwargs: Any) -> Any:
    """As PIL.ImageFont.load_default, whose result has the method `getsize`."""
    return _sized(ImageFont.load_default(*args, **kwargs))
