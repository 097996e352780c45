"""What docs/temporal.md shows is true."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "temporal.md"
    result = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 8 and result.failed == 0
