"""Facts as tables of text and of HTML: what a terminal and a notebook show of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

MOST_ROWS = 20
_MOST_CHARACTERS = 60
_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], count: int) -> str:
    """Aligned columns under their names, and how many rows there are besides those given."""
    if not columns:
        return ("true" if count else "false") + "\n"
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    is_number = [all(isinstance(row[j], int | float) for row in rows) for j in range(len(columns))]
    lines = []
    for row in (list(columns), *cells):
        aligned = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, is_number, strict=True)
        ]
        lines.append("  ".join(aligned).rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    if count > len(rows):
        lines.append(f"… {count - len(rows):,} more")
    return "\n".join(lines) + "\n"


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], count: int, title: str) -> str:
    """The same as HTML."""
    head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>" for row in rows
    )
    more = f"<div>… {count - len(rows):,} more</div>" if count > len(rows) else ""
    table = f"<table style='{_STYLE}'><tr>{head}</tr>{body}</table>" if columns else ""
    return f"<div><div><b>{escape(title)}</b></div>{table}{more}</div>"


def _cell(value: Any) -> str:
    shown = str(value).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[: _MOST_CHARACTERS - 1]}…"
