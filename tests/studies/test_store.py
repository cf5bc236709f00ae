"""The store: appended lines are whole, torn ones harmless, claims end with their owner, ended trials stay."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rollshape.errors import RequestError, RunError
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.study import Study
from rollshape.studies.study_file import study_from_dict


def study(seeds: int = 2, name: str = "x") -> Study:
    return study_from_dict({"grid": {"num_envs": [2, 4]}, "seeds": seeds}, name)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "study")
    store.begin(study())
    return store


def test_a_study_is_begun_once_and_may_grow(store: Store) -> None:
    store.begin(study())
    assert len(list(store.journal.events())) == 1
    store.begin(study(seeds=5))
    assert store.study() == study(seeds=5)
    with pytest.raises(RequestError, match="holds the study x"):
        store.begin(study(name="other"))


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RequestError, match="not empty"):
        Store(tmp_path).begin(study())
    with pytest.raises(RequestError, match="holds no study"):
        Store(tmp_path).study()
    with pytest.raises(RequestError, match="Cannot create"):
        Store(tmp_path / "thesis.txt" / "study").begin(study())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_is_harmless(store: Store, kept: int) -> None:
    store.record_end("a", TrialResult("done", summary={"final_return": 1.0}))
    whole = store.journal.path.read_bytes()
    store.record_end("b", TrialResult("done", summary={"final_return": 2.0}))
    torn = store.journal.path.read_bytes()[len(whole) :][:kept]
    store.journal.path.write_bytes(whole + torn)
    ended = {"a"}
    assert set(store.progress()) == set(Store(store.path).progress()) == ended
    store.record_end("c", TrialResult("failed", "error", "why"))
    assert set(store.progress()) == set(Store(store.path).progress()) == ended | {"c"}
    assert store.progress()["c"].result == TrialResult("failed", "error", "why")


def test_what_ended_well_cannot_be_undone_and_what_failed_can(store: Store) -> None:
    store.record_end("a", TrialResult("failed", "error", "why"))
    store.record_end("a", TrialResult("failed", "error", "again"))
    assert store.progress()["a"].failures == 2
    assert not store.progress()["a"].is_final
    store.record_end("a", TrialResult("done", summary={"final_return": 1.0}))
    store.record_end("a", TrialResult("failed", "error", "late"))
    assert store.progress()["a"].result == TrialResult("done", summary={"final_return": 1.0})


def test_files_of_an_ended_trial_are_read_only(store: Store) -> None:
    folder = store.run_dir("a") / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "1.eqx").write_text("arrays")
    store.record_end("a", TrialResult("failed", "error", "why"))
    assert (folder / "1.eqx").stat().st_mode & 0o222
    store.record_end("a", TrialResult("done"))
    assert not (folder / "1.eqx").stat().st_mode & 0o222


APPENDER = """
import sys
from pathlib import Path
from rollshape.studies.store import TrialResult, Store
store = Store(Path(sys.argv[1]))
for i in range(100):
    store.record_end(f"{sys.argv[2]}-{i}", TrialResult("done", summary={"text": "x" * 5000}))
"""


def test_links_are_not_followed(store: Store, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    store.run_dir("a").mkdir()
    (store.run_dir("a") / "link").symlink_to(victim)
    store.record_end("a", TrialResult("done"))
    assert victim.stat().st_mode & 0o777 == 0o600
    (store.path / "claims" / "b").symlink_to(victim)
    with pytest.raises(RunError, match="cannot be written"):
        store.lock_trial("b")
    store.journal.path.unlink()
    store.journal.path.symlink_to(victim)
    with pytest.raises(RunError, match="cannot be written"):
        store.journal.append({"event": "run"})
    assert victim.read_text() == "precious"


def test_two_processes_append_whole_lines(store: Store) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", APPENDER, str(store.path), name]) for name in "ab"]
    while any(writer.poll() is None for writer in writers):
        store.progress()
    assert [writer.wait() for writer in writers] == [0, 0]
    lines = store.journal.path.read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 201
    assert len(store.progress()) == 200
    assert store.progress() == Store(store.path).progress()


HOLDER = """
import sys, time
from pathlib import Path
from rollshape.studies.store import Store
lock = Store(Path(sys.argv[1])).lock_trial("a")
print("held" if lock else "refused", flush=True)
time.sleep(60)
"""


def test_a_claim_ends_with_its_owner(store: Store) -> None:
    owner = subprocess.Popen([sys.executable, "-c", HOLDER, str(store.path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner, owner.stdout as said:
        assert said.readline() == "held\n"
        assert store.lock_trial("a") is None
        other = store.lock_trial("b")
        assert other is not None
        owner.kill()
    claim = store.lock_trial("a")
    assert claim is not None
    with claim, other:
        assert store.lock_trial("a") is None
    again = store.lock_trial("a")
    assert again is not None
    again.__exit__()


def test_threads_of_one_process_claim_apart(store: Store) -> None:
    won: list[bool] = []

    def take() -> None:
        won.append(store.lock_trial("a") is not None)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won.count(True) == 1


def test_probes_are_kept_by_trial_and_moment(store: Store) -> None:
    assert store.probes("a") == {}
    store.write_probe("a", 0.5, {"variance": 2.0})
    store.write_probe("a", 0.1, {"variance": 1.0})
    store.write_probe("a", 0.5, {"variance": 3.0})
    assert store.probes("a") == {0.1: {"variance": 1.0}, 0.5: {"variance": 3.0}}
    assert list(store.probes("a")) == [0.1, 0.5]
    with pytest.raises(ValueError):
        store.write_probe("a", 0.9, {"variance": float("nan")})
    assert 0.9 not in store.probes("a")
    assert os.listdir(store.path / "probes") == ["a"]
