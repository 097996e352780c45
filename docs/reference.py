"""Make a site of the guides and of an API reference from docstrings: ``python docs/reference.py FOLDER``.

The guides are the Markdown pages of this folder; the reference is what pdoc makes of the modules below. Ends
with 1 if a link leads nowhere.
"""

from __future__ import annotations

import re
import shutil
import sys
from html import escape, unescape
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import markdown2
import pdoc
import pdoc.render

_HERE = Path(__file__).parent
MODULES = (
    "gpuengine",
    "gpuengine.relation",
    "gpuengine.maintenance.transaction",
    "gpuengine.maintenance.change",
    "gpuengine.explaining.proof",
    "gpuengine.explaining.why_not",
    "gpuengine.profiling.profile",
    "gpuengine.temporal.view",
    "gpuengine.errors",
    "gpuengine.spark_bridge",
)
"""What users hold in their hands."""
_EXTRAS = ["tables", "fenced-code-blocks", "header-ids", "code-friendly", "cuddled-lists"]
_PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
pre, code {{ font: 14px/1.4 ui-monospace, monospace }}
pre {{ overflow-x: auto; padding: .7rem; background: color-mix(in srgb, currentColor 7%, transparent) }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
th, td {{ border: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .2rem .5rem }}
th, td {{ text-align: left }}
</style><nav>{nav}</nav><main>{body}</main>"""


def build(folder: Path) -> None:
    """Make the site in a folder. Files of the repository that are no guides are named, and not linked."""
    for name in MODULES:
        module = import_module(name)
        for lazy in getattr(module, "__all__", ()):
            setattr(module, lazy, getattr(module, lazy))  # pdoc looks for them without asking for them
    pdoc.render.configure(docformat="markdown", show_source=False, footer_text="gpuengine")
    pdoc.pdoc(*MODULES, output_directory=folder / "api")
    for picture in _HERE.glob("*.svg"):
        shutil.copy(picture, folder)
    guides = sorted(_HERE.glob("*.md"))
    nav = (
        " · ".join(f'<a href="{page.stem}.html">{page.stem}</a>' for page in guides)
        + ' · <a href="api/index.html">API</a>'
    )
    for page in guides:
        html = str(markdown2.markdown(page.read_text(encoding="utf-8"), extras=_EXTRAS))
        body = re.sub(r'<a href="([^"]+)">(.*?)</a>', _link, html, flags=re.DOTALL)
        title = escape(page.stem)
        (folder / f"{page.stem}.html").write_text(
            _PAGE.format(title=title, nav=nav, body=body), encoding="utf-8"
        )
    body = '<h1>gpuengine</h1><p>The <a href="tutorial.html">tutorial</a>, guides, and the API.</p>'
    (folder / "index.html").write_text(_PAGE.format(title="gpuengine", nav=nav, body=body), encoding="utf-8")


def _link(match: re.Match[str]) -> str:
    """A link of a guide on the site: guides are pages there, other files of the repository are not."""
    target = urlsplit(unescape(match[1]))
    if target.scheme or not target.path:
        return match[0]
    if "/" not in target.path and target.path.endswith(".md"):
        fragment = f"#{target.fragment}" if target.fragment else ""
        return f'<a href="{target.path.removesuffix(".md")}.html{fragment}">{match[2]}</a>'
    return match[2]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {value for key in ("id", "name") if (value := given.get(key))}
        if link := given.get("href" if tag == "a" else "src"):
            self.links.add(link)


def broken_links(folder: Path) -> list[str]:
    """The links of a site that lead to no page of it, or to no place of a page."""
    pages: dict[Path, _Page] = {}
    for path in folder.rglob("*.html"):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            to = (path.parent / unquote(target.path)).resolve() if target.path else path
            names = pages[to].names if to in pages else set()
            if not to.is_file() or (target.fragment and unquote(target.fragment) not in names):
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
    return broken


def main(folder: str) -> int:
    """Build, and say which links are broken."""
    build(Path(folder))
    broken = broken_links(Path(folder))
    for line in broken:
        print(line, file=sys.stderr)
    print(f"{folder}/index.html")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
