"""`gpuengine run --profile`: the page, the JSON beside it, and the text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.processes import gpuengine, reach_project, visible_files

_VOID = {"meta", "input", "br", "link", "img", "hr"}
RUN = ("run", "reach.dl", "-F", "facts", "-D", "out")


class Page(HTMLParser):
    """Reads a page and fails at tags that do not fit; `rules` are the texts that opening them shows."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rules: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(attrs) == len(dict(attrs))
        if tag == "pre":
            self.rules.append("")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "pre" in self.open:
            self.rules[-1] += data
        if not {"script", "style"} & set(self.open):
            self.words.append(data)


def assert_alone(text: str, page: Page) -> None:
    """Nothing is fetched."""
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "a")
        assert not {"src", "href", "srcset", "action"} & attributes.keys()
    assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert "Content-Security-Policy" in text and "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def test_the_page_and_its_json_agree_with_the_statistics(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3), (3, 4), (1, 3), (4, 2)])
    done = gpuengine(*RUN, "--json", "--stats", "--profile", "told/reach.html", cwd=tmp_path)
    assert done.returncode == 0
    assert visible_files(tmp_path / "told") == ["reach.html", "reach.json"]
    report = json.loads(done.stdout)
    profile = json.loads((tmp_path / "told" / "reach.json").read_text())
    for key in ("program", "seconds", "rounds", "facts", "threads", "backend", "compiled_kernels"):
        assert profile[key] == report[key], key
    assert profile["process"]["peak_rss_bytes"] == report["peak_rss_bytes"]
    counted = ("text", "seconds", "candidates", "derived", "evaluations", "uncounted")
    assert [{key: rule[key] for key in counted} for rule in profile["rules"]] == [
        {key: rule[key] for key in counted} for rule in report["rules"]
    ]
    assert [rule["backends"] for rule in profile["rules"]] == [rule["places"] for rule in report["rules"]]
    stored = {one["name"]: one for one in profile["relations"]}
    assert stored.keys() == {"edge", "path"}
    for name, one in report["storage"].items():
        assert all(stored[name][key] == one[key] for key in ("scheme", "why", "facts", "nbytes"))
    for one, other in zip(profile["strata"], report["strata"], strict=True):
        assert [one["number"] - 1, one["relations"], one["rounds"], one["moves"]] == list(other.values())
        assert sum(span["rounds"] for span in one["spans"]) == sum(one["rounds"].values())
    spent = sum(rule["seconds"] for rule in profile["rules"])
    assert profile["outside_rules"] == pytest.approx(max(report["seconds"]["evaluate"] - spent, 0))
    text = (tmp_path / "told" / "reach.html").read_text()
    page = Page(text)
    assert_alone(text, page)
    assert sorted(page.rules) == sorted(rule["text"] for rule in profile["rules"])
    for rule in profile["rules"]:
        assert any(rule["places"][0] in said for said in page.words)
        assert any(f"{rule['candidates']:,}" == said for said in page.words)
    assert {rule["places"][0] for rule in profile["rules"]} == {"reach.dl:6:1", "reach.dl:7:1"}


def test_json_alone(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine(*RUN, "--profile", "p.json", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "p.json").read_text())["facts"] == 5
    assert visible_files(tmp_path) == ["facts/edge.facts", "out/path.csv", "p.json", "reach.dl"]


def test_text(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine(*RUN, "--profile", "-", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("Profile of reach.dl\n")
    for said in (
        "reach.dl:7:1: path(x, z) :- path(x, y), edge(y, z).",
        "for the new facts of path, with sizes assumed: ",
        "probe     edge(y, z) by (x)",
        "candidates",
        "stored as",
    ):
        assert said in done.stderr


def test_text_of_programs_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(
        '.decl a(x: symbol)\n.decl b(x: symbol)\n.output b\na("x").\n'
        "b(x) :- a(x), x != \"</pre></script><b onclick='1'>&amp;<!--\".\n"
    )
    assert gpuengine("run", "p.dl", "-D", "out", "--profile", "p.html", cwd=tmp_path).returncode == 0
    page = Page((tmp_path / "p.html").read_text())
    assert page.rules == ["b(x) :- a(x), x != \"</pre></script><b onclick='1'>&amp;<!--\"."]
    assert all("onclick" not in attributes for _, attributes in page.tags)


def test_three_hundred_rules(tmp_path: Path) -> None:
    lines = [".decl r0(x: number, y: number)", "r0(1, 2). r0(2, 3). r0(3, 1)."]
    for k in range(1, 101):
        lines += [
            f".decl r{k}(x: number, y: number)",
            f"r{k}(x, y) :- r{k - 1}(x, y), x != {k}.",
            f"r{k}(x, z) :- r{k}(x, y), r{k - 1}(y, z), x < {k + 2}.",
            f"r{k}(x, y) :- r{k - 1}(y, x), x < {k}.",
        ]
    (tmp_path / "many.dl").write_text("\n".join([*lines, ".output r100", ""]))
    done = gpuengine("run", "many.dl", "-D", "out", "--profile", "many.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "many.html").read_text()
    page = Page(text)
    assert_alone(text, page)
    written = [line for line in lines if ":-" in line]
    assert len(written) == 300 and sorted(page.rules) == sorted(written)
    places = {said for said in page.words if re.fullmatch(r"many\.dl:\d+:1", said)}
    assert places == {f"many.dl:{n}:1" for n, line in enumerate(lines, 1) if ":-" in line}
    assert sum(attributes.get("class") == "lane" for _, attributes in page.tags) == 100


def test_a_run_that_fails_leaves_the_profile_that_was(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert gpuengine(*RUN, "--profile", "p.html", cwd=tmp_path).returncode == 0
    before = (tmp_path / "p.html").read_text(), (tmp_path / "p.json").read_text()
    (tmp_path / "facts" / "edge.facts").write_text("1\tx\n")
    assert gpuengine(*RUN, "--profile", "p.html", cwd=tmp_path).returncode == 1
    assert ((tmp_path / "p.html").read_text(), (tmp_path / "p.json").read_text()) == before


def test_what_can_not_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "p.json").mkdir()
    done = gpuengine(*RUN, "--profile", "p.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: can't write p.json: it is a directory\n")
    (tmp_path / "q.dl").write_text('.decl a(x: number)\n.output a(IO=jsonfile, filename="a.json")\na(1).\n')
    done = gpuengine("run", "q.dl", "-D", "out", "--profile", "out/a.html", cwd=tmp_path)
    assert done.returncode == 1
    assert "the profile and an output would both be written to out/a.json" in done.stderr
    assert visible_files(tmp_path) == ["facts/edge.facts", "q.dl", "reach.dl"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("reach.dl", "--profile", "p.svg"), "'p.svg' is neither FILE.html nor FILE.json, nor - for text"),
        (("reach.dl", "--profile", "p.html", "--on", "spark"), "--profile does not go with --on spark"),
        (("a.mtl", "--profile", "p.html"), "--profile is for Datalog, but a.mtl is DatalogMTL"),
        (("a.ttl", "--profile", "p.html"), "--profile is not for RDF, and a.ttl is"),
    ],
)
def test_refused(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    reach_project(tmp_path)
    done = gpuengine("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr


def test_an_update_is_profiled(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert gpuengine(*RUN, "--save", "kb", cwd=tmp_path).returncode == 0
    (tmp_path / "new.csv").write_text("3\t4\n")
    done = gpuengine("update", "kb", "--insert", "edge=new.csv", "--profile", "p.html", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "edge\t+1\t-0\npath\t+3\t-0\n", "")
    profile = json.loads((tmp_path / "p.json").read_text())
    assert profile["work"] == "update, maintained" and profile["program"] == "kb"
    assert {"open", "read", "update", "total"} <= profile["seconds"].keys()
    assert sum(rule["derived"] for rule in profile["rules"]) >= 3
    text = (tmp_path / "p.html").read_text()
    assert_alone(text, Page(text))
    done = gpuengine("update", "kb", "--delete", "edge=new.csv", "--profile", "-", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "edge\t+0\t-1\npath\t+0\t-3\n")
    assert done.stderr.startswith("Profile of kb\n  update, maintained\n") and "lost" in done.stderr


def test_a_profile_of_an_update_that_can_not_be_written(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert gpuengine(*RUN, "--save", "kb", cwd=tmp_path).returncode == 0
    (tmp_path / "new.csv").write_text("3\t4\n")
    (tmp_path / "p.json").mkdir()
    done = gpuengine("update", "kb", "--insert", "edge=new.csv", "--profile", "p.html", cwd=tmp_path)
    assert done.returncode == 1 and "can't write p.json: it is a directory" in done.stderr
    assert gpuengine("query", "kb", "edge(3, x)", cwd=tmp_path).stdout == "x\n"
