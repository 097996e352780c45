"""Machine code that comes with the package: built for every architecture, taken where it fits, else made."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.kernels.cuda.columns import gather, take_every
from gpuengine.kernels.cuda.devices import module_cache, shipping
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES, symbol
from gpuengine.kernels.cuda.devices.module_cache import module_file
from gpuengine.kernels.cuda.devices.shipping import build_cubins, device_kernels_named


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "compiled"
    made = build_cubins(folder, device_kernels_named([gather.name]))
    assert len(made) == len(ARCHITECTURES)
    return folder


@pytest.fixture
def brought(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if the package had come with one kernel; a copy, to be damaged. The cache is empty."""
    folder = tmp_path / "compiled"
    shutil.copytree(built, folder)
    monkeypatch.setattr(shipping, "FOLDER", folder)
    monkeypatch.setenv("GPUENGINE_CACHE_DIR", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kernels that were compiled."""
    names: list[str] = []
    original = module_cache._build

    def build(kernel: object, capability: tuple[int, int]) -> tuple[bytes, str]:
        names.append(kernel.name)  # type: ignore[attr-defined]
        return original(kernel, capability)  # type: ignore[arg-type]

    monkeypatch.setattr(module_cache, "_build", build)
    yield names


def test_all_kernels_are_shipped() -> None:
    assert [kernel.name for kernel in device_kernels_named([])] == sorted(KERNELS)
    with pytest.raises(KeyError, match="nothing"):
        device_kernels_named(["nothing"])


@pytest.mark.parametrize("capability", [*ARCHITECTURES, (8, 6), (8, 9), (10, 3), (12, 1)])
def test_what_fits_is_taken(brought: Path, compiled: list[str], capability: tuple[int, int]) -> None:
    path = module_file(gather, capability)
    assert path.is_relative_to(brought)
    assert path.parent.name == {8: "sm_80", 10: "sm_100", 12: "sm_120"}.get(
        capability[0], "sm_{}{}".format(*capability)
    )
    assert symbol(gather).encode() in path.read_bytes() and path.read_bytes().startswith(b"\x7fELF")
    assert not compiled


def test_a_kernel_that_did_not_come_is_compiled(brought: Path, compiled: list[str]) -> None:
    assert not module_file(take_every, (8, 0)).is_relative_to(brought)
    assert compiled == [take_every.name]


def test_an_architecture_that_none_is_for_is_compiled(
    brought: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "ARCHITECTURES", ARCHITECTURES[1:])
    assert not module_file(gather, (7, 5)).is_relative_to(brought)
    assert compiled == [gather.name]


def test_code_of_other_sources_is_passed_over(
    brought: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "source_digest", lambda: "0" * 24)
    assert not module_file(gather, (9, 0)).is_relative_to(brought)
    assert compiled == [gather.name]


def test_the_digest_is_that_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shipping.source_digest()
    monkeypatch.setattr(shipping, "source_contents", lambda *_, **__: iter([b"another"]))
    assert shipping.source_digest.__wrapped__() != found


@pytest.mark.parametrize("damage", ["torn", "another's"])
def test_a_damaged_file_is_passed_over(brought: Path, compiled: list[str], damage: str) -> None:
    for path in brought.rglob("sm_80/*.cubin"):
        path.write_bytes(path.read_bytes()[:-1] if damage == "torn" else b"\x7fELF")
    assert not module_file(gather, (8, 0)).is_relative_to(brought)
    assert compiled == [gather.name]
