"""Looking at files, and moving them, by the file systems of a session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from gpuengine.errors import DataError
from gpuengine.spark_bridge.filesystem import FileSystem, join, name_of, parent_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def files(spark: SparkSession) -> FileSystem:
    return FileSystem(spark)


def test_paths_are_joined_and_taken_apart_as_text() -> None:
    assert join("s3a://bucket/x/", "y", "z") == "s3a://bucket/x/y/z"
    assert join("s3a://bucket", "y") == "s3a://bucket/y"
    assert join("", "y") == "y" and join("/", "y") == "/y"
    assert name_of("hdfs://h/a/b/") == "b"
    assert [parent_of(p) for p in ("a", "/a", "d/a/", "file:/a", "s3a://b/a", "s3a://b/d/a")] == [
        ".",
        "/",
        "d",
        "file:/",
        "s3a://b",
        "s3a://b/d",
    ]


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_text_is_written_over_what_was_there(files: FileSystem, tmp_path: Path, scheme: str) -> None:
    path = f"{scheme}{tmp_path}/state.json"
    for text in ("first", "zweité", ""):
        files.write_text(path, text)
        assert files.read_text(path) == text
        assert (tmp_path / "state.json").read_text() == text
    assert files.list(str(tmp_path)) == ["state.json"]


def test_text_that_is_replaced_is_there_at_every_moment(files: FileSystem, tmp_path: Path) -> None:
    """Whoever is killed while writing leaves what can be read; so a reader never finds anything else."""
    path = f"{tmp_path}/state.json"
    files.write_text(path, "0" * 2000)
    found: set[str] = set()
    is_done = Event()

    def read() -> None:
        while not is_done.is_set():
            found.add(files.read_text(path))

    reader = ThreadPoolExecutor(1).submit(read)
    for number in range(1, 100):
        files.write_text(path, str(number % 10) * 2000)
    is_done.set()
    reader.result()
    assert len(found) > 1 and found <= {str(number) * 2000 for number in range(10)}


def test_a_write_that_fails_leaves_what_was_there(files: FileSystem, tmp_path: Path) -> None:
    (tmp_path / "state.json" / "sub").mkdir(parents=True)
    with pytest.raises(DataError, match=r"can't write .*state\.json"):
        files.write_text(f"{tmp_path}/state.json", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_folders_are_made_listed_measured_and_deleted(files: FileSystem, tmp_path: Path) -> None:
    folder = join(str(tmp_path), "a", "b")
    files.make_directories(folder)
    (tmp_path / "a" / "b" / "part-0.csv").write_text("12345")
    (tmp_path / "a" / "b" / "part-1.csv").write_text("67")
    assert files.is_directory(folder) and not files.is_directory(f"{folder}/part-0.csv")
    assert files.list(folder) == ["part-0.csv", "part-1.csv"]
    assert files.size(folder) == 7
    assert [name_of(p) for p in files.matches(f"{folder}/part-*.csv")] == ["part-0.csv", "part-1.csv"]
    assert files.matches(f"{folder}/*.orc") == []
    files.delete(join(str(tmp_path), "a"))
    assert not files.exists(folder)
    files.delete(folder)


def test_rename_refuses_what_would_not_be_a_move(files: FileSystem, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    with pytest.raises(DataError, match="it is there already"):
        files.rename(f"{tmp_path}/old", f"{tmp_path}/new")
    with pytest.raises(DataError, match=r"can't move .*none"):
        files.rename(f"{tmp_path}/none", f"{tmp_path}/other")
    files.rename(f"{tmp_path}/old", f"{tmp_path}/other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "other"]


def test_replace_swaps_folders_and_puts_the_old_one_back_if_it_can_not(
    files: FileSystem, tmp_path: Path
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    with pytest.raises(DataError, match="can't move"):
        files.replace(f"{tmp_path}/none", f"{tmp_path}/new")
    assert (tmp_path / "new" / "new").exists()
    files.replace(f"{tmp_path}/old", f"{tmp_path}/new")
    assert [p.name for p in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new" / "old").exists()


@pytest.mark.parametrize("path", ["nosuch://x/y", "a:b", ""])
def test_what_is_no_path_is_said_so_in_one_line(files: FileSystem, path: str) -> None:
    with pytest.raises(DataError) as raised:
        files.exists(path)
    assert "\n" not in str(raised.value)


def test_one_file_has_one_qualified_name(files: FileSystem, tmp_path: Path) -> None:
    assert files.qualified(f"{tmp_path}/x") == files.qualified(f"file://{tmp_path}/x")
