"""``spark-submit --py-files gpuengine.whl``: only the wheel brings the package to driver and executors."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.scripts import QUIET, ROOT

SUBMIT = Path(sys.executable).with_name("spark-submit")

JOB = """
import json, sys
import gpuengine
from gpuengine.errors import SparkError
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.sessions import session

PROGRAM = '''
.decl edge(a: number, b: number)
.decl path(a: number, b: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
'''

def closure(batches):
    import pyarrow as pa
    import gpuengine
    from gpuengine.engine import Engine
    from gpuengine.spark_bridge.tasks import prepare_worker
    prepare_worker()
    engine = Engine(PROGRAM, backend="cpu", threads=1)
    engine.load("edge", pa.Table.from_batches(list(batches)))
    engine.materialise()
    row = {"facts": [len(engine["path"])], "file": [gpuengine.__file__]}
    yield pa.RecordBatch.from_pydict(row)

spark = session()
edges = spark.range(0, 10, 1, 1).selectExpr("id a", "id + 1 b")
shipped, error = list(spark.sparkContext._python_includes), ""
# As if the package had not come along.
spark.sparkContext._python_includes.clear()
try:
    with spark_failures("the closure"):
        edges.mapInArrow(closure, "facts bigint, file string").collect()
except SparkError as raised:
    error = str(raised)
spark.sparkContext._python_includes.extend(shipped)
rows = edges.mapInArrow(closure, "facts bigint, file string").collect()
print(json.dumps([gpuengine.__file__, rows[0].facts, rows[0].file, error]))
spark.stop()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy, since builds leave files in the folder of the sources."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("gpuengine", "kernels", "schemes", "spark_bridge"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([*command, "-w", str(out), str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("gpuengine-*.whl")
    return built


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has every package of this one but gpuengine."""
    folder = tmp_path_factory.mktemp("python")
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(site.getsitepackages()[0]).iterdir():
        if "gpuengine" not in path.name and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    launcher = folder / "python3"
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}" exec "{base}" "$@"\n'
    )
    launcher.chmod(0o755)
    absent = subprocess.run(
        [launcher, "-c", "import gpuengine"], cwd=folder, capture_output=True, check=False
    )
    assert b"No module named 'gpuengine'" in absent.stderr
    return launcher


def submit(folder: Path, python: Path, wheel: Path, master: str) -> list[Any]:
    """What the job prints, in a folder where no package lies about."""
    job = folder / "job.py"
    job.write_text(JOB)
    conf = [part for item in QUIET.items() for part in ("--conf", "=".join(item))]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [SUBMIT, "--master", master, *conf, "--py-files", wheel, job],
        cwd=folder,
        env=env | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    told: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.slow
def test_the_wheel_is_all_that_is_needed_and_an_executor_without_it_is_told_how_to_get_it(
    tmp_path: Path, python: Path, wheel: Path
) -> None:
    # In local mode workers would inherit the path of the driver.
    on_driver, facts, in_task, error = submit(tmp_path, python, wheel, "local-cluster[1,1,1024]")
    assert facts == 55
    assert ".whl/gpuengine/" in on_driver
    assert ".zip/gpuengine/" in in_task

    assert error.startswith(
        "the closure: the package gpuengine is not on an executor\n  hint: ship the wheel"
    )
    assert "--py-files" in error and "pip install gpuengine" in error and "spark.archives" in error


@pytest.mark.slow
def test_kernels_in_a_wheel_are_cached_as_those_that_are_installed(python: Path, wheel: Path) -> None:
    text = "from gpuengine.kernels.cpu.jit import _cache_folder; print(_cache_folder())"
    folders = {
        subprocess.run(
            [command, "-c", text],
            env=os.environ | {"PYTHONPATH": str(path)},
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command, path in ((python, wheel), (Path(sys.executable), ROOT))
    }
    assert len(folders) == 1
