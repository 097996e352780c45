"""`make docs`: every public name is in the reference, and every link leads somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import gpuengine

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", REPOSITORY / "docs" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(reference: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    reference.build(folder)
    return folder


def test_links_lead_somewhere(reference: ModuleType, site: Path, tmp_path: Path) -> None:
    assert reference.broken_links(site) == []
    (tmp_path / "a.html").write_text('<a href="b.html">b</a><a href="#x">x</a><p id="y"><a href="#y">y</a>')
    assert reference.broken_links(tmp_path) == ["a.html: #x", "a.html: b.html"]


def test_public_names_are_documented(site: Path) -> None:
    page = (site / "api" / "gpuengine.html").read_text()
    shown = set(re.findall(r'id="([^"]+)"', page))
    names = {name for name in gpuengine.__all__ if not name.startswith("_")}
    methods = {f"Engine.{name}" for name in dir(gpuengine.Engine) if not name.startswith("_")}
    assert names | methods <= shown
    view = (site / "api" / "gpuengine" / "relation.html").read_text()
    assert 'id="RelationView.to_arrow"' in view


def test_guides_are_pages(site: Path) -> None:
    guides = {page.stem for page in (REPOSITORY / "docs").glob("*.md")}
    assert guides < {page.stem for page in site.glob("*.html")}
    assert '<a href="data.html#which-column">' in (site / "python.html").read_text()
