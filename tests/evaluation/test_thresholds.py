"""The file of thresholds: by device, whole or not at all, and a clear word about a bad one."""

from __future__ import annotations

import json
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from gpuengine.errors import GpuEngineError
from gpuengine.evaluation.placement.accelerator import Accelerator
from gpuengine.evaluation.thresholds import (
    Thresholds,
    load_thresholds,
    store_thresholds,
    stored_thresholds,
    thresholds_file,
)
from tests.evaluation.accelerator import Accelerator as Device


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUENGINE_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config"


def test_defaults_without_a_file(folder: Path) -> None:
    assert load_thresholds("any") == Thresholds() and stored_thresholds() == {}
    assert not folder.exists(), "reading makes nothing"


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    assert thresholds_file() == folder / "thresholds.json"
    monkeypatch.delenv("GPUENGINE_CONFIG_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert thresholds_file() == tmp_path / "xdg" / "gpuengine" / "thresholds.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert thresholds_file() == tmp_path / "home" / ".config" / "gpuengine" / "thresholds.json"


def test_each_device_has_its_own(folder: Path) -> None:
    first, second = Thresholds(auto_facts=7, round_microseconds=2.5), Thresholds(large_delta=9)
    assert store_thresholds("A 100", first) == folder / "thresholds.json"
    store_thresholds("B 200", second)
    assert load_thresholds("A 100") == first and load_thresholds("B 200") == second
    store_thresholds("A 100", replace(first, small_delta=3))
    assert load_thresholds("A 100").small_delta == 3 and load_thresholds("B 200") == second
    assert load_thresholds("another") == Thresholds()
    assert [path.name for path in folder.iterdir()] == ["thresholds.json"], "nothing is left lying about"


def test_what_the_file_leaves_out_is_the_default(folder: Path) -> None:
    folder.mkdir()
    (folder / "thresholds.json").write_text('{"A 100": {"auto_facts": 12}}')
    assert load_thresholds("A 100") == Thresholds(auto_facts=12)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "no JSON"),
        ("[]", "not an object with a key for each device"),
        ('{"A 100": 5}', "A 100: not an object"),
        ('{"A 100": {"auto_fact": 5}}', "A 100: no number is called 'auto_fact'"),
        ('{"A 100": {"auto_facts": "5"}}', "A 100: auto_facts is '5'"),
        ('{"A 100": {"auto_facts": -5}}', "A 100: auto_facts is -5"),
        ('{"A 100": {"auto_facts": true}}', "A 100: auto_facts is True"),
        ('{"A 100": {"auto_facts": NaN}}', "A 100: auto_facts is nan"),
        ('{"A 100": {"transfer_bytes_per_microsecond": 0}}', "transfer_bytes_per_microsecond is 0"),
    ],
)
def test_a_bad_file_is_named(folder: Path, content: str, what: str) -> None:
    folder.mkdir()
    path = folder / "thresholds.json"
    path.write_text(content)
    for action in (lambda: load_thresholds("B 200"), lambda: store_thresholds("B 200", Thresholds())):
        with pytest.raises(GpuEngineError) as caught:
            action()
        assert str(caught.value).startswith(f"{path}: ") and what in str(caught.value)
        assert "doctor --tune" in str(caught.value)
    assert path.read_text() == content, "a file that can't be understood is not overwritten"


def test_a_file_of_other_bytes(folder: Path) -> None:
    folder.mkdir()
    (folder / "thresholds.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GpuEngineError, match=r"thresholds\.json"):
        load_thresholds("any")


def test_a_folder_that_can_not_be_written(folder: Path) -> None:
    folder.write_text("a file, not a folder")
    with pytest.raises(GpuEngineError, match="can't write"):
        store_thresholds("A 100", Thresholds())


def test_an_accelerator_has_those_of_its_device(folder: Path) -> None:
    own = Thresholds(auto_facts=5, large_delta=6)
    store_thresholds(Device.device_name, own)
    assert Accelerator(Device()).thresholds == own
    given = Thresholds(auto_facts=1)
    assert Accelerator(Device(), given).thresholds == given


def test_before_a_device_is_open_the_lowest_decide_whether_to_look(folder: Path) -> None:
    store_thresholds(Device.device_name, Thresholds(auto_facts=500, large_delta=10**9))
    store_thresholds("other", Thresholds(auto_facts=10**9, large_delta=600, round_microseconds=1.0))
    accelerator = Accelerator(None, None, Device)
    assert accelerator.thresholds == Thresholds(auto_facts=500, large_delta=600)
    assert accelerator.open() is not None
    assert accelerator.thresholds == Thresholds(auto_facts=500, large_delta=10**9)


@pytest.mark.parametrize("field", fields(Thresholds), ids=lambda field: field.name)
def test_numbers_that_can_not_be(field: Field[Any]) -> None:
    for value in (-1, float("nan"), "5", True):
        with pytest.raises(GpuEngineError, match=f"{field.name} is "):
            Thresholds(**{field.name: value})


def test_the_file_is_plain_json(folder: Path) -> None:
    store_thresholds("A 100", Thresholds())
    content = json.loads((folder / "thresholds.json").read_text())
    assert content["A 100"]["auto_facts"] == Thresholds().auto_facts
