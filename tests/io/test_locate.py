"""Where facts are looked for and written, and what programs can't reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuengine.errors import DataError
from gpuengine.io import find_facts, output_path, read_facts
from tests.io.relations import attributes


def put(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("1\n")


def test_the_name_of_the_relation(tmp_path: Path) -> None:
    put(tmp_path, "edge.facts", "edge.csv", "edge/part-0")
    assert find_facts("edge", {}, tmp_path) == tmp_path / "edge.facts"


@pytest.mark.parametrize(
    "suffix", [".facts.gz", ".facts.zst", ".csv", ".csv.gz", ".tsv", ".parquet", ".arrow"]
)
def test_other_extensions(tmp_path: Path, suffix: str) -> None:
    put(tmp_path, f"edge{suffix}")
    assert find_facts("edge", {}, tmp_path) == tmp_path / f"edge{suffix}"


def test_a_directory_of_part_files(tmp_path: Path) -> None:
    put(tmp_path, "edge/part-1.facts", "edge/part-0.facts", "edge/_SUCCESS", "edge/.part-0.crc")
    path = find_facts("edge", {}, tmp_path)
    table = read_facts(path, attributes("n"), {}, relation="edge").table
    assert table.to_pydict() == {"x": [1, 1]}


def test_directories_without_parts(tmp_path: Path) -> None:
    (tmp_path / "edge").mkdir()
    with pytest.raises(DataError, match="a directory without part files"):
        read_facts(tmp_path / "edge", attributes("n"), {}, relation="edge")
    put(tmp_path, "edge/_SUCCESS")
    facts = read_facts(tmp_path / "edge", attributes("n"), {}, relation="edge")
    assert (facts.table.num_rows, facts.table.column_names) == (0, ["x"])
    assert read_facts(tmp_path / "edge", [], {}, relation="edge").table.num_rows == 0


def test_file_names(tmp_path: Path) -> None:
    put(tmp_path, "sub/e.txt", "part-0.tsv", "part-1.tsv")
    assert find_facts("edge", {"filename": "sub/e.txt"}, tmp_path) == tmp_path / "sub/e.txt"
    absolute = str(tmp_path / "sub/e.txt")
    assert find_facts("edge", {"filename": absolute}, tmp_path) == tmp_path / "sub/e.txt"
    pattern = find_facts("edge", {"filename": "part-*.tsv"}, tmp_path)
    assert read_facts(pattern, attributes("n"), {}, relation="edge").table.num_rows == 2
    assert find_facts("edge", {"filename": "sub"}, tmp_path) == tmp_path / "sub"


def test_deep_globs(tmp_path: Path) -> None:
    put(tmp_path, "a/x.facts", "b/c/x.facts", "b/c/y.facts")
    table = read_facts(tmp_path / "**" / "x.facts", attributes("n"), {}, relation="edge").table
    assert table.num_rows == 2
    with pytest.raises(DataError, match="no file matches"):
        read_facts(tmp_path / "*.parquet", attributes("n"), {}, relation="edge")


def test_missing_files_name_what_is_near(tmp_path: Path) -> None:
    put(tmp_path, "Edges.facts", "other.facts")
    with pytest.raises(DataError) as caught:
        find_facts("edge", {}, tmp_path)
    assert str(caught.value) == (
        f"no facts for edge: looked for {tmp_path}/edge.facts (also as .csv, .tsv, .txt, .parquet, .arrow, "
        "compressed as .gz or .zst, and as a directory); there is Edges.facts"
    )
    with pytest.raises(DataError, match=r"looked for .*/edgs\.facts; there is Edges\.facts"):
        find_facts("edge", {"filename": "edgs.facts"}, tmp_path)
    with pytest.raises(DataError, match="nowhere is not a directory"):
        find_facts("edge", {}, tmp_path / "nowhere")


@pytest.mark.parametrize(
    "filename", ["../secret.facts", "/etc/passwd", "sub/../../secret.facts", "sub/*/../../*"]
)
def test_programs_stay_inside_the_fact_directory(tmp_path: Path, filename: str) -> None:
    put(tmp_path, "secret.facts", "facts/sub/x/e.facts")
    with pytest.raises(DataError, match="leaves the fact directory"):
        find_facts("edge", {"filename": filename}, tmp_path / "facts")
    with pytest.raises(DataError, match="leaves the output directory"):
        output_path("edge", {"filename": filename}, tmp_path / "facts")


@pytest.mark.parametrize(
    "filename", ["link.facts", "way/secret.facts", "*.facts", "parts", "parts/*", "way/*.facts"]
)
def test_programs_do_not_follow_links_outside(tmp_path: Path, filename: str) -> None:
    put(tmp_path, "secret.facts")
    facts = tmp_path / "facts"
    (facts / "parts").mkdir(parents=True)
    (facts / "link.facts").symlink_to(tmp_path / "secret.facts")
    (facts / "parts" / "link.facts").symlink_to(tmp_path / "secret.facts")
    (facts / "way").symlink_to(tmp_path)
    with pytest.raises(DataError, match="leaves the fact directory"):
        find_facts("edge", {"filename": filename}, facts)


def test_links_of_the_user_are_followed(tmp_path: Path) -> None:
    put(tmp_path, "store/big.facts", "facts/readme.txt")
    (tmp_path / "facts" / "edge.facts").symlink_to(tmp_path / "store" / "big.facts")
    assert find_facts("edge", {}, tmp_path / "facts") == tmp_path / "facts" / "edge.facts"
    (tmp_path / "alias").symlink_to(tmp_path / "facts")
    assert find_facts("e", {"filename": "readme.txt"}, tmp_path / "alias").exists()


@pytest.mark.parametrize("filename", ["", "a\0b"])
def test_names_that_are_none(tmp_path: Path, filename: str) -> None:
    with pytest.raises(DataError, match="is not a file name"):
        find_facts("edge", {"filename": filename}, tmp_path)


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match=r"filename='a' of edge can't be followed|no facts for edge"):
        find_facts("edge", {"filename": "a"}, tmp_path)


def test_standard_input(tmp_path: Path) -> None:
    assert find_facts("edge", {"IO": "stdin"}, tmp_path) == Path("-")


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({}, "edge.csv"),
        ({"IO": "file"}, "edge.csv"),
        ({"compress": "true"}, "edge.csv.gz"),
        ({"IO": "tsv"}, "edge.tsv"),
        ({"IO": "parquet"}, "edge.parquet"),
        ({"IO": "arrow"}, "edge.arrow"),
        ({"IO": "parquet", "compress": "true"}, "edge.parquet"),
        ({"filename": "sub/out.txt"}, "sub/out.txt"),
    ],
)
def test_output_paths(tmp_path: Path, params: dict[str, str], name: str) -> None:
    assert output_path("edge", params, tmp_path) == tmp_path / name
