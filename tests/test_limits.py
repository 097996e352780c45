"""Limits of memory: what the machine says, and whole processes that keep to a budget."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

import gpuengine as ge
from gpuengine import limits
from gpuengine.errors import GpuEngineError, MemoryBudgetError
from gpuengine.limits import Limits, parse_size
from gpuengine.machine import available_memory, cgroup_room, give_back, resident_memory

MB, GB = 1 << 20, 1 << 30

# -- what the machine says -----------------------------------------------------------------------------


def machine(root: Path, cgroup: str, mounts: str, files: dict[str, str], free: int = 64 * GB) -> Path:
    """A root directory that says of this process what a kernel would."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {free // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    (root / "proc/self/mountinfo").write_text(mounts)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


def test_no_control_group_leaves_what_is_free(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/\n", V2, {})
    assert cgroup_room(root) is None
    assert available_memory(root) == 64 * GB


def test_a_limit_of_version_2_counts_without_pages_that_can_be_dropped(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/box"
    files = {
        f"{group}/memory.max": f"{2 * GB}\n",
        f"{group}/memory.current": f"{GB}\n",
        f"{group}/memory.stat": f"anon 5\ninactive_file {GB // 2}\n",
    }
    assert available_memory(machine(tmp_path, "0::/box\n", V2, files)) == 2 * GB - GB // 2


def test_the_tightest_of_nested_groups_counts(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/outer/memory.max": f"{GB}",
        "sys/fs/cgroup/outer/memory.current": f"{GB // 4}",
        "sys/fs/cgroup/outer/inner/memory.max": "max",
        "sys/fs/cgroup/outer/inner/deep/memory.max": f"{8 * GB}",
        "sys/fs/cgroup/outer/inner/deep/memory.current": "0",
    }
    root = machine(tmp_path, "0::/outer/inner/deep\n", V2, files)
    assert cgroup_room(root) == GB - GB // 4


def test_a_soft_limit_counts_as_well(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/a/memory.max": "max", "sys/fs/cgroup/a/memory.high": f"{GB}"}
    assert cgroup_room(machine(tmp_path, "0::/a\n", V2, files)) == GB


def test_a_limit_of_version_1(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory/docker/abc"
    files = {
        f"{group}/memory.limit_in_bytes": f"{512 * MB}\n",
        f"{group}/memory.usage_in_bytes": f"{100 * MB}\n",
        f"{group}/memory.stat": f"inactive_file 7\ntotal_inactive_file {40 * MB}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    text = "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n"
    assert cgroup_room(machine(tmp_path, text, V1 + V2, files)) == 452 * MB


def test_a_container_that_sees_the_name_its_host_gave_the_group(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GB}",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "0",
    }
    assert cgroup_room(machine(tmp_path, "4:memory:/docker/abc\n", V1, files)) == GB


def test_a_mount_of_a_part_of_the_hierarchy(tmp_path: Path) -> None:
    mount = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    files = {"sys/fs/cgroup/memory/sub/memory.limit_in_bytes": f"{GB}"}
    assert cgroup_room(machine(tmp_path, "4:memory:/docker/abc/sub\n", mount, files)) == GB


def test_a_group_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/a/memory.max": f"{GB}", "sys/fs/cgroup/a/memory.current": f"{3 * GB}"}
    assert available_memory(machine(tmp_path, "0::/a\n", V2, files)) == 0


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    assert available_memory(tmp_path) > 0


# -- asking --------------------------------------------------------------------------------------------


def test_sizes() -> None:
    assert [parse_size(text) for text in ("1k", "512 MiB", "1.5g", 7)] == [1024, 512 * MB, 3 * GB // 2, 7]


@pytest.mark.parametrize("size", ["10XB", "", "-5", -5, 0, "0", "0GB", 1.5, True, None, "1e3", "nan"])
def test_what_is_no_size_is_said_to_be_none(size: object) -> None:
    with pytest.raises(GpuEngineError, match="memory size"):
        parse_size(size)  # type: ignore[arg-type]


def test_outside_an_operation_nothing_is_limited() -> None:
    limits.charge(1 << 60, "much")
    limits.check("much")
    assert limits.room() is None


def test_what_is_too_much_is_refused_with_what_was_going_on() -> None:
    with Limits(100 * MB, doing=lambda: "deriving by: p(x) :- q(x).").applied():
        limits.charge(90 * MB, "this")
        with pytest.raises(
            MemoryBudgetError, match=r"(?s)100 MB: that takes 110 MB.*while deriving by: p\(x\)"
        ):
            limits.charge(110 * MB, "that")
        with limits.suspended():
            limits.charge(110 * MB, "that")


def test_what_the_engine_holds_counts_and_what_others_hold_does_not(trimmed: None) -> None:
    held = resident_memory()
    with Limits(2 * held, own=lambda: held).applied() as applied:
        assert 0.5 * held < applied.room() < held + 80 * MB
    with Limits(2 * held).applied() as applied:
        assert applied.room() > 1.5 * held


@pytest.fixture
def trimmed() -> None:
    """Nothing that was freed in this process is left to be taken without its holding more."""
    gc.collect()
    give_back()


def test_what_is_held_is_watched(trimmed: None) -> None:
    with Limits(MB).applied() as applied:
        assert applied.room() > 0
        block = bytearray(b"x") * (120 * MB)
        with pytest.raises(MemoryBudgetError, match="took the process"):
            applied.check("a block")
        del block


def test_limits_inside_others_are_theirs() -> None:
    with Limits(100 * MB).applied() as outer, Limits(GB).applied() as inner:
        assert inner is outer


# -- whole processes -----------------------------------------------------------------------------------

_MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(json.dumps([done.returncode, done.stdout, done.stderr, peak]))
"""
"""A small process starts the one that is measured: Linux counts what the starter held as well."""


def measured(*command: str | Path, cwd: Path) -> tuple[int, str, str, int]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", _MEASURED, sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    code, out, err, peak = json.loads(done.stdout)
    return code, out, err, peak


def run(program: str, tmp_path: Path, memory: int, most: float = 0) -> tuple[int, str, str, int]:
    """Run a program. If it takes more than `most`, once more: kernels are compiled only once."""
    (tmp_path / "p.dl").write_text(program)
    command = ("-m", "gpuengine", "run", "p.dl", "--memory", str(memory), "-j", "2")
    found = measured(*command, cwd=tmp_path)
    return found if found[3] <= most else measured(*command, cwd=tmp_path)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> int:
    """What a process holds that does next to nothing."""
    folder = tmp_path_factory.mktemp("base")
    program = (
        '.decl p(x: number, s: symbol)\np(x, s) :- x = range(0, 9), s = cat(to_string(x), "a").\n.output p\n'
    )
    code, _, err, peak = run(program, folder, GB)
    assert code == 0, err
    return peak


NUMBERS = ".decl n(x: number)\nn(x) :- x = range(0, 6000).\n"
BUDGET = 200 * MB

REFUSED = {
    "cat": '.decl p(x: symbol)\np("abcdefgh").\np(cat(x, x)) :- p(x).\n.printsize p\n',
    "range": ".decl p(x: number)\np(x) :- x = range(0, 3000000000).\n.printsize p\n",
    "floats": ".decl p(x: float)\np(x) :- x = range(0.0, 100000000.0, 0.5).\n.printsize p\n",
    "product": NUMBERS + ".decl p(x: number, y: number)\np(x, y) :- n(x), n(y).\n.printsize p\n",
    "computed": NUMBERS + ".decl p(x: number)\np(z) :- n(x), n(y), z = 6000 * x + y.\n.printsize p\n",
    "strings": NUMBERS
    + '.decl p(x: symbol)\np(cat(to_string(x), "-", to_string(y))) :- n(x), n(y).\n.printsize p\n',
    "records": ".type R = [a: number, b: number]\n"
    + NUMBERS
    + ".decl p(r: R)\np([x, y]) :- n(x), n(y).\n.printsize p\n",
    "counter": ".decl p(x: number)\np(0).\np(x + 1) :- p(x).\n.printsize p\n",
    "steps": ".decl e(x: number, y: number, w: number)\ne(0, 1, 3). e(1, 0, -5). e(1, 1, 7).\n"
    + ".decl p(x: number, d: number)\np(0, 0).\np(y, d - w) :- p(x, d), e(x, y, w).\n.printsize p\n",
    "shared": ".type L = [a: L, b: L]\n.decl p(n: number, l: L)\np(0, nil).\n"
    + "p(n + 1, [l, l]) :- p(n, l), n < 60.\n.output p\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_process_that_would_take_too_much_ends_near_its_budget(
    name: str, tmp_path: Path, base: int
) -> None:
    most = base + 1.25 * BUDGET
    code, _, err, peak = run(REFUSED[name], tmp_path, BUDGET, most)
    assert code == 1, err
    assert "out of the memory budget of 200 MB" in err
    assert ("p(" in err.split("while", 1)[1]) or name == "shared", err
    assert peak <= most, f"{(peak - base) / MB:.0f} MB"
    assert not list(tmp_path.glob("*.csv"))


ENOUGH = {
    "sum": (".decl s(n: number)\ns(n) :- n = sum x * y : { n(x), n(y) }.\n.output s\n", 17997000**2),
    "count": (".decl s(n: number)\ns(n) :- n = count : { n(x), n(y), x < y }.\n.output s\n", 17997000),
    "range": (
        ".decl s(n: number)\ns(n) :- n = count : { x = range(0, 16000000), x % 2 = 0 }.\n.output s\n",
        8000000,
    ),
}


@pytest.mark.parametrize("name", ENOUGH)
def test_what_needs_no_memory_takes_none(name: str, tmp_path: Path, base: int) -> None:
    text, wanted = ENOUGH[name]
    most = base + 1.25 * 64 * MB
    code, _, err, peak = run(NUMBERS + text, tmp_path, 64 * MB, most)
    assert code == 0, err
    assert (tmp_path / "s.csv").read_text() == f"{wanted}\n"
    assert peak <= most


def test_an_update_that_does_not_fit_leaves_everything_as_it_was() -> None:
    kb = ge.Engine(
        ".decl n(x: number)\n.decl p(x: number, y: number)\np(x, y) :- n(x), n(y).\n", memory="100MB"
    )
    kb.load("n", [(i,) for i in range(10)])
    kb.materialise()
    with pytest.raises(MemoryBudgetError, match=r"p\(x, y\) :- n\(x\), n\(y\)"), kb.update() as update:
        update.insert("n", [(i,) for i in range(10, 20_000)])
    assert len(kb["n"]) == 10
    assert len(kb["p"]) == 100
    with kb.update() as update:
        update.insert("n", [(10,)])
    assert len(kb["p"]) == 121


def test_reading_a_view_that_does_not_fit_is_refused() -> None:
    kb = ge.Engine(REFUSED["shared"], memory="100MB").materialise()
    with pytest.raises(MemoryBudgetError, match="reading p"):
        kb["p"].to_arrow()
    assert len(kb["p"]) == 61


def test_memory_that_was_freed_does_not_count_though_the_allocator_keeps_it(trimmed: None) -> None:
    with Limits(MB).applied() as limit:
        assert limit.room() > 0
        pieces = [bytearray(2000) for _ in range(150_000)]
        last = pieces[-1]
        del pieces
        limits.check("nothing")
        assert limit.room() > 0 and last
        pieces = [bytearray(2000) for _ in range(150_000)]
        limit._looked = 0.0
        with pytest.raises(MemoryBudgetError, match="took the process"):
            limits.check("pieces")
        assert len(pieces) == 150_000
