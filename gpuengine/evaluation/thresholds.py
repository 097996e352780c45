"""When to use an accelerator: the numbers that `placement` decides by, for each kind of device.

The defaults are estimates from published launch latencies and bandwidths. They were NOT measured: no
device was at hand. ``gpuengine doctor --tune`` measures them and stores what it finds in the file
``thresholds.json`` of the configuration folder, by the name of the device.

| number | default | where it comes from |
|---|---|---|
| auto_facts | 1,000,000 | what the host derives from less takes about as long as opening a device |
| small_delta | 4,096 | too few rows to fill a device |
| large_delta | 262,144 | some ten milliseconds of work for the host |
| round_microseconds | 150 | about ten launches of 5 µs and a few waits of 20 to 30 µs |
| transfer_bytes_per_microsecond | 8,000 | PCIe 4.0 x16 from memory that is not pinned |
| rebuild_rows_per_microsecond | 10 | a set and an index on the host: about 100 ns a row |
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gpuengine.errors import GpuEngineError
from gpuengine.machine import home_folder

_RATES = ("transfer_bytes_per_microsecond", "rebuild_rows_per_microsecond")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What decides between the host and an accelerator. Raises `GpuEngineError` if a number can't be one."""

    auto_facts: int = 1_000_000
    """``auto`` starts a stratum on the accelerator if the relations it reads hold so many facts."""
    small_delta: int = 4_096
    """Rounds with a delta of up to so many facts are faster on the host."""
    large_delta: int = 262_144
    """A stratum on the host moves to the accelerator when its delta has so many facts."""
    round_microseconds: float = 150.0
    """How much longer a small round takes on the accelerator than on the host."""
    transfer_bytes_per_microsecond: float = 8_000.0
    """How fast facts move between host and accelerator."""
    rebuild_rows_per_microsecond: float = 10.0
    """How fast the host makes the set and the indexes of facts that have moved to it."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise GpuEngineError(f"{field.name} is {value!r}, not a number of 0 or more")
            if field.name in _RATES and not value:
                raise GpuEngineError(f"{field.name} is 0: nothing is that slow")


def thresholds_file() -> Path:
    """``thresholds.json`` in GPUENGINE_CONFIG_DIR, or in the folder ``gpuengine`` of XDG_CONFIG_HOME."""
    own = os.environ.get("GPUENGINE_CONFIG_DIR")
    if own:
        return Path(own) / "thresholds.json"
    base = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(base) if base else (home_folder() or Path("/nonexistent")) / ".config"
    return folder / "gpuengine" / "thresholds.json"


def load_thresholds(device_name: str) -> Thresholds:
    """The numbers of a device: what was stored for it, and the defaults for the rest."""
    return stored_thresholds().get(device_name, Thresholds())


def store_thresholds(device_name: str, thresholds: Thresholds) -> Path:
    """Keep the numbers of a device beside those of others; returns the file. It is written whole or not."""
    import json

    from gpuengine.io.replacing import Replacement

    path = thresholds_file()
    content = {name: asdict(known) for name, known in stored_thresholds().items()}
    content[device_name] = asdict(thresholds)
    with Replacement() as replacement:
        with replacement.file(path) as file:
            file.write((json.dumps(content, indent=1) + "\n").encode())
        replacement.finish()
    return path


def stored_thresholds() -> dict[str, Thresholds]:
    """What the file says, by device; nothing if there is none. Raises if it can't be understood."""
    import json

    path = thresholds_file()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(path, str(error)) from error
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise _bad(path, f"no JSON: {error}") from error
    if not isinstance(content, dict):
        raise _bad(path, "not an object with a key for each device")
    return {name: _parse(path, name, numbers) for name, numbers in content.items()}


def _parse(path: Path, device_name: str, numbers: Any) -> Thresholds:
    names = {field.name for field in fields(Thresholds)}
    if not isinstance(numbers, dict):
        raise _bad(path, f"{device_name}: not an object")
    for key in numbers:
        if key not in names:
            raise _bad(path, f"{device_name}: no number is called {key!r}")
    try:
        return Thresholds(**numbers)
    except GpuEngineError as error:
        raise _bad(path, f"{device_name}: {error}") from error


def _bad(path: Path, why: str) -> GpuEngineError:
    return GpuEngineError(
        f"{path}: {why}\n  hint: correct the file, delete it, or write it anew with `gpuengine doctor --tune`"
    )
