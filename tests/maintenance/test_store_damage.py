"""Damaged stores: every file cut and flipped anywhere is noticed and named; never a wrong state."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from pathlib import Path

import pytest

from gpuengine.errors import StoreError
from gpuengine.maintenance.store import Store
from tests.maintenance.store_worlds import World, numbered_commit, numbered_world

COMMITS = 6
HEADER = 48  # bytes that a journal begins with


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with segments, terms and a journal of the commits 5 and 6."""
    path = tmp_path_factory.mktemp("pristine") / "kb"
    Store.create(path, numbered_world(2).snapshot())
    with Store.open(path) as store:
        for number in range(3, COMMITS + 1):
            store.commit(numbered_commit(number))
            if number == 4:
                store.compact()
    return path


def load(path: Path) -> World:
    with Store.open(path, read_only=True) as store:
        return World.of(store.load())


def last_record(journal: bytes) -> int:
    """Where the second and last record of the journal begins."""
    return HEADER + 24 + int.from_bytes(journal[HEADER : HEADER + 8], "little")


def data_files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.name != "lock")


def check(path: Path, damaged: Path) -> None:
    """The store says what is wrong with this file, or has lost commits from the journal's end."""
    try:
        world = load(path)
    except StoreError as error:
        assert str(damaged) in str(error)
    else:
        assert damaged.suffix == ".journal"
        assert world in [numbered_world(number) for number in range(4, COMMITS)]


def test_the_store_to_be_damaged(pristine: Path) -> None:
    kinds = [file.suffix for file in data_files(pristine)]
    assert kinds.count(".arrow") >= 4 and kinds.count(".journal") == 1
    assert load(pristine) == numbered_world(COMMITS)


def test_truncated_files(pristine: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    for original in data_files(pristine):
        content = original.read_bytes()
        lengths = {
            0,
            1,
            7,
            8,
            31,
            32,
            33,
            len(content) - 1,
            *(rng.randrange(len(content)) for _ in range(25)),
        }
        for length in lengths:
            path = tmp_path / "kb"
            shutil.copytree(pristine, path)
            damaged = path / original.name
            damaged.write_bytes(content[:length])
            check(path, damaged)
            shutil.rmtree(path)


def test_flipped_bits(pristine: Path, tmp_path: Path) -> None:
    rng = random.Random(2)
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    for damaged in data_files(path):
        content = damaged.read_bytes()
        end = last_record(content) if damaged.suffix == ".journal" else len(content)
        for _ in range(120):
            flipped = bytearray(content)
            flipped[rng.randrange(end)] ^= 1 << rng.randrange(8)
            damaged.write_bytes(flipped)
            with pytest.raises(StoreError) as caught:
                load(path)
            assert str(damaged) in str(caught.value)
        damaged.write_bytes(content)
    assert load(path) == numbered_world(COMMITS)


def test_every_bit_of_a_journal(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    (journal,) = path.glob("*.journal")
    content = journal.read_bytes()
    last = last_record(content)
    for at in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        journal.write_bytes(flipped)
        if at < last:
            with pytest.raises(StoreError, match=rf"{journal} is damaged: .*(at byte \d+|header)"):
                load(path)
        else:
            assert load(path) == numbered_world(COMMITS - 1), "nothing follows it: it was never finished"


@pytest.mark.parametrize("part", ["length", "header", "payload", "all", "begin"])
@pytest.mark.parametrize("filling", [b"\0", b"\xff", b"z"])
def test_last_record_that_was_not_kept(pristine: Path, tmp_path: Path, part: str, filling: bytes) -> None:
    """What a power cut leaves of a commit that was not acknowledged: its length, and anything for content."""
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    (journal,) = path.glob("*.journal")
    content = journal.read_bytes()
    last = last_record(content)
    begin, end = {
        "length": (last, last + 8),
        "header": (last, last + 24),
        "payload": (last + 24, len(content)),
        "all": (last, len(content)),
        "begin": (last, last + 100),
    }[part]
    torn = content[:begin] + filling * (end - begin) + content[end:]
    journal.write_bytes(torn)
    with Store.open(path, read_only=True) as reader:
        assert World.of(reader.load()) == numbered_world(COMMITS - 1)
        assert reader.discarded_bytes == len(content) - last
    assert journal.read_bytes() == torn
    with Store.open(path) as writer:
        assert writer.discarded_bytes == len(content) - last
        writer.commit(numbered_commit(COMMITS))
    assert journal.read_bytes() == content


def test_long_unfinished_record(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    (journal,) = path.glob("*.journal")
    whole = journal.read_bytes()
    for tail in (bytes(40_000_000), (COMMITS + 1).to_bytes(8, "little") * 1000):
        journal.write_bytes(whole + tail)
        with Store.open(path, read_only=True) as reader:
            assert World.of(reader.load()) == numbered_world(COMMITS)
            assert reader.discarded_bytes == len(tail)


def test_missing_files(pristine: Path, tmp_path: Path) -> None:
    for original in data_files(pristine):
        path = tmp_path / "kb"
        shutil.copytree(pristine, path)
        (path / original.name).unlink()
        with pytest.raises(StoreError, match=f"{original.name}"):
            load(path)
        shutil.rmtree(path)


def test_longer_segments_and_garbage_after_the_journal(pristine: Path, tmp_path: Path) -> None:
    for original in data_files(pristine):
        path = tmp_path / "kb"
        shutil.copytree(pristine, path)
        damaged = path / original.name
        damaged.write_bytes(original.read_bytes() + b"garbage! " * 8)
        if damaged.suffix == ".journal":
            assert load(path) == numbered_world(COMMITS)
        else:
            with pytest.raises(StoreError, match=f"{damaged}"):
                load(path)
        shutil.rmtree(path)


def test_records_out_of_order(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    (journal,) = path.glob("*.journal")
    content = journal.read_bytes()
    last = last_record(content)
    for wrong in (content + content[HEADER:], content[:HEADER] + content[last:]):
        journal.write_bytes(wrong)
        with pytest.raises(StoreError, match=r"the record at byte \d+ has number \d, not \d"):
            load(path)


def test_journal_of_another_generation(pristine: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "kb", tmp_path / "other"
    shutil.copytree(pristine, path)
    Store.create(other, numbered_world(4).snapshot())
    (journal,) = path.glob("*.journal")
    shutil.copy(other / "g1.journal", journal)
    with pytest.raises(StoreError, match=r"journal of another knowledge base: it was begun for generation 1"):
        load(path)


def test_journal_of_another_knowledge_base(pristine: Path, tmp_path: Path) -> None:
    """Also if it is a knowledge base with the same tables, of the same generation and number of commits."""
    for other in (tmp_path / "other", tmp_path / "copy"):
        if other.name == "copy":  # one that went its own way
            shutil.copytree(pristine, other)
            with Store.open(other) as store:
                store.commit(numbered_commit(COMMITS + 1))
                store.compact()
        else:
            Store.create(other, numbered_world(2).snapshot())
            with Store.open(other) as store:
                for number in (3, 4):
                    store.commit(numbered_commit(number))
                store.compact()
                store.commit(numbered_commit(5))
        path = tmp_path / "kb"
        shutil.copytree(pristine, path)
        with Store.open(path) as store:
            store.commit(numbered_commit(COMMITS + 1))
            if other.name == "copy":
                store.compact()
        (journal,) = path.glob("*.journal")
        shutil.copy(other / journal.name, journal)
        before = journal.read_bytes()
        for read_only in (True, False):
            with pytest.raises(StoreError, match=rf"{journal} is the journal of another knowledge base"):
                Store.open(path, read_only=read_only).load()
        assert journal.read_bytes() == before
        shutil.rmtree(path)


def test_record_of_another_journal(pristine: Path, tmp_path: Path) -> None:
    """What a disk may find where a commit should be: a record of a file that is deleted."""
    path, other = tmp_path / "kb", tmp_path / "other"
    shutil.copytree(pristine, path)
    Store.create(other, numbered_world(2).snapshot())
    with Store.open(other) as store:
        for number in range(3, COMMITS + 1):
            store.commit(numbered_commit(number))
        store.compact()
        store.commit(numbered_commit(COMMITS + 1))
    stale = (other / "g2.journal").read_bytes()[HEADER:]
    (journal,) = path.glob("*.journal")
    journal.write_bytes(journal.read_bytes() + stale)
    assert load(path) == numbered_world(COMMITS)


def test_version_1(tmp_path: Path) -> None:
    """What an earlier gpuengine wrote: it is read, updated, and made version 2 by compaction."""
    path = tmp_path / "kb"
    shutil.copytree(Path(__file__).parent / "version_1", path)
    assert load(path) == numbered_world(4)
    with Store.open(path) as store:
        assert store.describe()["version"] == 1
        store.commit(numbered_commit(5))
        assert World.of(store.load()) == numbered_world(5)
    assert load(path) == numbered_world(5)
    with Store.open(path) as store:
        store.compact()
        assert store.describe()["version"] == 2
        store.commit(numbered_commit(6))
    assert load(path) == numbered_world(6)


def test_unfinished_commit(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    (journal,) = path.glob("*.journal")
    whole = journal.stat().st_size
    content = journal.read_bytes()
    journal.write_bytes(content[:-5])
    with Store.open(path, read_only=True) as reader:
        assert World.of(reader.load()) == numbered_world(COMMITS - 1)
        lost = reader.discarded_bytes
        assert lost > 0 and reader.describe()["discarded_bytes"] == lost
    assert journal.stat().st_size == whole - 5, "readers change nothing"
    with Store.open(path) as writer:
        assert writer.discarded_bytes == writer.describe()["discarded_bytes"] == lost
        assert journal.stat().st_size == whole - 5 - lost
        writer.commit(numbered_commit(COMMITS))
    assert journal.read_bytes() == content


def rewrite_manifest(path: Path, old: bytes, new: bytes) -> None:
    """Edit a manifest and give it the checksum of what it then says."""
    manifest = path / "manifest.json"
    _, _, rest = manifest.read_bytes().partition(b"\n")
    assert old in rest
    rest = rest.replace(old, new)
    manifest.write_bytes(b'{"checksum": "%08x",\n' % zlib.crc32(rest) + rest)


def test_later_version(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    rewrite_manifest(path, b'"version": 2', b'"version": 3')
    before = {file: file.read_bytes() for file in path.iterdir()}
    for use in (
        lambda: Store.open(path),
        lambda: Store.open(path, read_only=True),
        lambda: Store.create(path, numbered_world(0).snapshot(), replace=True),
    ):
        with pytest.raises(StoreError, match=r"format version 3, .* up to 2\. Upgrade gpuengine"):
            use()
    assert {file: file.read_bytes() for file in path.iterdir()} == before


def test_manifest_that_points_elsewhere(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    file = json.loads((path / "manifest.json").read_bytes())["terms"][0]["segment"]["file"]
    rewrite_manifest(path, file.encode(), b"../secret")
    with pytest.raises(StoreError, match="no name of a segment"):
        load(path)


def test_a_damaged_store_can_be_replaced(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    shutil.copytree(pristine, path)
    (path / "manifest.json").write_bytes(b"\0" * 100)
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        Store.open(path)
    Store.create(path, numbered_world(1).snapshot(), replace=True)
    assert load(path) == numbered_world(1)
    assert len(list(path.glob("*.journal"))) == 1
