"""Directories of saved materialisations: what is refused, what a crash leaves, what is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuengine.errors import DataError, GpuEngineError, SparkError, StoreError
from gpuengine.spark_bridge import materialise
from gpuengine.spark_bridge import open as open_saved
from gpuengine.spark_bridge.filesystem import FileSystem
from gpuengine.spark_bridge.frames import Keeper
from tests.spark_bridge.scripts import ROOT
from tests.spark_bridge.test_materialise import CLOSURE, ONLY, engine_of, facts_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EDGES = [(1, 2), (2, 3)]


def edges(spark: SparkSession, rows: Iterable[tuple[int, int]]) -> DataFrame:
    return spark.createDataFrame(list(rows), "a bigint, b bigint")


def paths(rows: Iterable[tuple[int, int]]) -> list[str]:
    return facts_of(engine_of(CLOSURE, {"edge": list(rows)}), "path")


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A saved closure, not to be changed."""
    path = str(tmp_path_factory.mktemp("made") / "saved")
    materialise(spark, CLOSURE, {"edge": edges(spark, EDGES)}).save(path)
    return path


def copy_of(made: str, tmp_path: Path) -> str:
    import shutil

    return str(shutil.copytree(made, tmp_path / "saved"))


def test_save_refuses_what_is_there_and_replaces_if_asked(
    spark: SparkSession, made: str, tmp_path: Path
) -> None:
    path, other = copy_of(made, tmp_path), [(5, 6)]
    results = materialise(spark, CLOSURE, {"edge": edges(spark, other)})
    with pytest.raises(StoreError, match=r"already\n  hint: save\(path, replace=True\)"):
        results.save(path)
    assert rows_of(open_saved(spark, path)["path"]) == paths(EDGES)
    results.save(path, replace=True)
    assert rows_of(open_saved(spark, path)["path"]) == paths(other)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["saved"]


def test_save_leaves_other_directories_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    results = materialise(spark, CLOSURE, {"edge": edges(spark, EDGES)})
    for replace in (False, True):
        with pytest.raises(StoreError):
            results.save(str(tmp_path), replace=replace)
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious.txt"]


def test_save_refuses_what_has_no_carrier(spark: SparkSession, tmp_path: Path) -> None:
    program = ".type P = [a: number, b: number]\n.decl p(x: P)\n.decl q(n: number)\np([n, 1]) :- q(n).\n"
    results = materialise(spark, program, {"q": spark.createDataFrame([(1,)], "n bigint")})
    with pytest.raises(SparkError, match="p has values of type P"):
        results.save(str(tmp_path / "saved"))
    assert not list(tmp_path.iterdir())


def test_what_is_not_saved_can_not_be_opened(spark: SparkSession, made: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is no saved materialisation: there is no saved\.json"):
        open_saved(spark, str(tmp_path))
    with pytest.raises(StoreError, match="is no saved materialisation"):
        open_saved(spark, str(tmp_path / "nothing"))
    path = copy_of(made, tmp_path)
    manifest = Path(path, "saved.json")
    text = manifest.read_text()
    for damage in (text[:-20], "[]", "{}", text.replace('"version": 1', '"version": 99')):
        manifest.write_text(damage)
        with pytest.raises(StoreError, match=r"saved\.json"):
            open_saved(spark, path)


def test_updates_that_are_refused_change_nothing(spark: SparkSession, made: str, tmp_path: Path) -> None:
    path = copy_of(made, tmp_path)
    saved = open_saved(spark, path)
    before = files_in(path)
    with pytest.raises(GpuEngineError, match=r"no relation 'edgy' in the program; did you mean 'edge'\?"):
        saved.insert({"edgy": edges(spark, EDGES)})
    with pytest.raises(DataError, match="edge: column"):
        saved.insert({"edge": spark.createDataFrame([("x", "y")], "a string, b string")})
    with pytest.raises(DataError, match="1 null"):
        saved.insert({"edge": spark.createDataFrame([(1, None)], "a bigint, b bigint")})
    with pytest.raises(KeyError, match="'nope' was not saved"):
        saved["nope"]
    with pytest.raises(DataError, match="only some columns have the names of attributes"):
        saved.insert({"edge": spark.createDataFrame([(1, 2, 3)], "a bigint, c bigint, d bigint")})
    with pytest.raises(DataError, match="column b holds double, but b is declared number"):
        saved.delete({"edge": spark.createDataFrame([(1, 2.5)], "a bigint, b double")})
    assert files_in(path) == before


def files_in(path: str) -> list[str]:
    """All but the writer's lock, which stays when it is let go."""
    return sorted(str(entry) for entry in Path(path).rglob("*") if entry.name != "lock")


def test_two_writers_are_kept_apart(
    spark: SparkSession, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, files = copy_of(made, tmp_path), FileSystem(spark)
    one, other = open_saved(spark, path), open_saved(spark, path)
    results = materialise(spark, CLOSURE, {"edge": edges(spark, EDGES)})
    with files.writing(path):
        for update in (one.insert, one.delete):
            with pytest.raises(StoreError, match=rf"saved is being written by process {os.getpid()} on "):
                update({"edge": edges(spark, [(3, 4)])})
        with pytest.raises(StoreError, match="is being written by process"):
            results.save(path, replace=True)
        assert rows_of(other["path"]) == paths(EDGES)
    with monkeypatch.context() as patched:
        patched.setattr(FileSystem, "local", lambda self, at: None)  # as on a store without locks
        with (
            files.writing(path),
            pytest.raises(StoreError, match=r"writer.lock\n  hint: wait until that process"),
        ):
            one.compact()
        assert not Path(path, "writer.lock").exists()
    assert one.insert({"edge": edges(spark, [(3, 4)])}) == {"edge": 1, "path": 3}
    # The other goes on from that, though it was opened before.
    assert other.insert({"edge": edges(spark, [(4, 5)])}) == {"edge": 1, "path": 4}
    assert rows_of(open_saved(spark, path)["path"]) == paths([*EDGES, (3, 4), (4, 5)])
    assert one.counts["edge"] == 3
    one.refresh()
    assert one.counts["edge"] == 4


def test_a_crash_before_the_end_leaves_what_was_there(
    spark: SparkSession, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of(made, tmp_path)
    saved = open_saved(spark, path)

    def crash(files: FileSystem, at: str, text: str) -> None:
        raise ConnectionError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(FileSystem, "write_text", crash)
        for update in (saved.insert, saved.delete):
            with pytest.raises(ConnectionError):
                update({"edge": edges(spark, [(2, 3), (3, 4)])})
    for one in (saved, open_saved(spark, path)):
        assert rows_of(one["path"]) == paths(EDGES)
        assert one.counts == {"edge": 2, "path": 3}
    assert saved.insert({"edge": edges(spark, [(2, 3), (3, 4)])}) == {"edge": 1, "path": 3}
    assert rows_of(open_saved(spark, path)["path"]) == paths([*EDGES, (3, 4)])


def test_an_update_is_on_the_disk_before_its_manifest(
    spark: SparkSession, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of(made, tmp_path)
    done: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(descriptor: int) -> None:
        done.append(os.path.relpath(Path(f"/proc/self/fd/{descriptor}").resolve(), path))
        real_sync(descriptor)

    def replace(old: str, new: str) -> None:
        done.append(f"-> {Path(new).name}")
        real_replace(old, new)

    saved = open_saved(spark, path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", sync)
        patched.setattr(os, "replace", replace)
        saved.insert({"edge": edges(spark, [(3, 4)])})
    switch = done.index("-> saved.json")
    new = [
        file for file in Path(path, "generation-2").rglob("*") if file.suffix == ".parquet" or file.is_dir()
    ]
    assert len(new) > 4 and {str(file.relative_to(path)) for file in new} <= set(done[:switch])
    assert "." in done[:switch] and done[switch + 1 :] == ["."]


def test_what_fails_after_the_change_says_that_it_happened(
    spark: SparkSession, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of(made, tmp_path)
    saved = open_saved(spark, path)
    for number, (raised, said) in enumerate(((DataError("x"), "x"), (KeyboardInterrupt(), "committed")), 3):

        def fail(keeper: Keeper, raised: BaseException = raised) -> None:
            raise raised

        with monkeypatch.context() as patched, pytest.raises(GpuEngineError, match=said) as caught:
            patched.setattr(Keeper, "release", fail)
            saved.insert({"edge": edges(spark, [(number, number + 1)])}, limits=ONLY["rounds"])
        told = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
        assert "the change is committed" in told and "nothing was changed" not in told
        assert rows_of(open_saved(spark, path)["edge"]) == rows_of(saved["edge"])
        assert open_saved(spark, path).counts["edge"] == number


@pytest.mark.slow
def test_many_updates_are_put_together(spark: SparkSession, made: str, tmp_path: Path) -> None:
    path = copy_of(made, tmp_path)
    saved = open_saved(spark, path)
    earlier = saved["path"]
    for n in range(3, 6):
        saved.insert({"edge": edges(spark, [(n, n + 1)])}, limits=ONLY["rounds"])
    assert rows_of(earlier) == paths(EDGES)
    saved.insert({"edge": edges(spark, EDGES)})
    assert saved.report is not None and not saved.report.strata, "nothing is new"
    saved.compact()
    all_edges = [(n, n + 1) for n in range(1, 6)]
    for one in (saved, open_saved(spark, path)):
        assert rows_of(one["path"]) == paths(all_edges)
    relations = [entry for entry in Path(path).rglob("relations/path") if entry.is_dir()]
    assert len(relations) == 1
    assert saved.delete({"edge": edges(spark, [(3, 4)])}) == {"edge": -1, "path": -9}
    assert rows_of(open_saved(spark, path)["path"]) == paths(set(all_edges) - {(3, 4)})


@pytest.mark.slow
def test_the_command_line_saves(spark: SparkSession, tmp_path: Path) -> None:
    program = tmp_path / "closure.dl"
    program.write_text(f"{CLOSURE}.input edge\n.printsize path\n")
    edges(spark, EDGES).write.parquet(str(tmp_path / "facts" / "edge.parquet"))
    command = [sys.executable, "-m", "gpuengine", "run", str(program), "--on", "spark", "--quiet"]
    command += ["--master", "local[1]", "-F", str(tmp_path / "facts"), "--save", str(tmp_path / "saved")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "path\t3\n"), done.stderr
    saved = open_saved(spark, str(tmp_path / "saved"))
    saved.insert({"edge": edges(spark, [(3, 4)])})
    assert rows_of(saved["path"]) == paths([*EDGES, (3, 4)])


NAMED = """
.decl edge(a: symbol, b: symbol)
.decl path(a: symbol, b: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def jobs_so_far(spark: SparkSession) -> int:
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().jobsList(None).size())


def test_terms_are_written_only_if_there_are_new_ones(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "saved")
    rows = [("a", "b"), ("b", "c"), ("c", "d")]

    def named(pairs: Iterable[tuple[str, str]]) -> DataFrame:
        return spark.createDataFrame(list(pairs), "a string, b string")

    def dictionary() -> str:
        return str(json.loads((tmp_path / "saved" / "saved.json").read_text())["dictionaries"]["symbol"])

    materialise(spark, NAMED, {"edge": named(rows)}, where="cluster").save(path)
    first = dictionary()
    open_saved(spark, path).insert({"edge": named([("d", "a")])})
    assert dictionary() == first
    open_saved(spark, path).insert({"edge": named([("d", "e"), ("a", "c")])})
    second = dictionary()
    assert second != first
    saved = open_saved(spark, path)
    saved.delete({"edge": named([("a", "b")])})
    assert dictionary() == second
    saved.compact()
    left = [("b", "c"), ("c", "d"), ("d", "a"), ("d", "e"), ("a", "c")]
    assert rows_of(open_saved(spark, path)["path"]) == facts_of(engine_of(NAMED, {"edge": left}), "path")


def test_numbers_need_no_dictionary_and_few_jobs(spark: SparkSession, made: str, tmp_path: Path) -> None:
    saved = open_saved(spark, copy_of(made, tmp_path))
    new = edges(spark, [(3, 4)])
    before = jobs_so_far(spark)
    assert saved.insert({"edge": new}) == {"edge": 1, "path": 3}
    # To check the new facts, and to fetch them, each of which Spark does in two steps.
    assert jobs_so_far(spark) - before <= 4
    assert rows_of(saved["path"]) == paths([*EDGES, (3, 4)])
