"""Text in drawings: as wide as its characters, escaped, and not too long."""

from __future__ import annotations

import re
import textwrap
from html import escape

CHARACTER = 7.25  # width of one character of the 12-pixel monospaced font
LINE = 18
PADDING = 12
MOST_CHARACTERS = 110


def text(x: float, y: float, words: str, style: str = "", most: int = MOST_CHARACTERS) -> str:
    """A line of text; what is cut off is shown as a tooltip."""
    shown = shortened(words, most)
    whole = f"<title>{safe(words)}</title>" if shown != words else ""
    css = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{css} xml:space="preserve">{safe(shown)}{whole}</text>'


def shortened(words: str, most: int = MOST_CHARACTERS) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def wrapped(words: str, most: int = MOST_CHARACTERS) -> list[str]:
    """All of it, in lines that are not too long where there are spaces to break at; later ones indented."""
    return textwrap.wrap(words, most, subsequent_indent="    ", break_on_hyphens=False) or [words]


def safe(words: str) -> str:
    """Escaped, and without the characters that XML can't hold."""
    return escape(re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", words))
