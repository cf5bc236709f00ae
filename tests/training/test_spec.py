"""A spec is checked before anything is created: every value, every algorithm's setting, the length of the run."""

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostile import HOSTILE, raw_errors
from rollshape.cli import main
from rollshape.errors import RequestError
from rollshape.geometry.fields import field_table
from rollshape.training.spec import MOST_GRADIENT_STEPS, MOST_UPDATES, Spec, checked_spec

SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "total_timesteps": 64}
NUMBERS = [name for name, field in field_table(Spec).items() if {field.kind, field.item} & {int, float}]


@pytest.mark.parametrize("name", [field.name for field in fields(Spec)])
def test_no_value_of_a_field_is_a_raw_error(name: str) -> None:
    assert raw_errors([lambda value=value: checked_spec(**{**SMALL, name: value}) for value in HOSTILE]) == []


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 10**39, -(10**39), "x", True, np.ones(2) / 2])
def test_numbers_that_cannot_be_meant(name: str, value: Any) -> None:
    with pytest.raises(RequestError, match=name):
        checked_spec(**{**SMALL, name: value})


def test_a_checked_spec_is_plain() -> None:
    spec = checked_spec(
        num_envs=np.int64(4), learning_rate=np.float32(0.5), hidden_sizes=[np.int32(8)], anneal_lr=np.bool_(True),
        env_kwargs={"delay": np.int8(3), "sizes": (1, 2)},
    )  # fmt: skip
    assert Spec.from_dict(json.loads(json.dumps(spec.to_dict(), allow_nan=False))) == spec
    assert spec.env_kwargs == {"delay": 3, "sizes": [1, 2]}
    assert checked_spec(spec, seed=3) == checked_spec(spec, seed=np.uint8(3))


@pytest.mark.parametrize("document", [{"num_envs": "4"}, {"hidden_sizes": 3.5}, {"gamma": None}, {"algo": ["ppo"]}])
def test_a_spec_of_wrong_types_is_one_message(document: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=next(iter(document))):
        Spec.from_dict(document)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_timesteps": 2**53}, f"281,474,976,710,656 updates; the maximum is {MOST_UPDATES:,}"),
        ({"num_epochs": 1_000_000, "num_minibatches": 16}, "16,000,000 gradient steps exceeds the maximum"),
        ({"algo": "sac", "num_steps": None, "train_batches": MOST_GRADIENT_STEPS + 1, "transition_batch_size": 1,
          "total_timesteps": 20_000}, "10,000,001 gradient steps"),
        ({"log_every": 500_001, "num_epochs": 2}, "more than 1,000,000 rows of metrics"),
    ],
)  # fmt: skip
def test_runs_that_are_too_long(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        checked_spec(**{**SMALL, **changes}).plan()
    assert caught.value.rule == "run-length"
    for alternative in caught.value.alternatives:
        checked_spec(**{**SMALL, **changes, **alternative}).plan()


@pytest.mark.parametrize(
    "flags",
    [
        ("--entropy-coef", "nan"), ("--num-epochs", "4294967296"), ("--learning-rate", "inf"), ("--seed", "-1"),
        ("--hidden-sizes", "10000000000"), ("--hidden-sizes", "0"), ("--log-every", "0"), ("--eval-every", "-3"),
        ("--value-coef", "-1"), ("--clip-range", "0"), ("--max-grad-norm", "1e-300"), ("--gamma", "nan"),
        ("--checkpoint-every", "0"), ("--stop-at-return", "inf", "--eval-every", "8"), ("--eval-after", "nan"),
        ("--num-shards", "0"), ("--microbatch-size", "-1"), ("--total-timesteps", "9" * 5000), ("--seed", "9" * 5000),
        ("--env-kwargs", "delay=nan"), ("--algo", "sac", "--polyak", "nan"), ("--algo", "rrd", "--rrd-batch-size", "0"),
        ("--algo", "sac", "--train-batches", "1e12"), ("--algo", "ppo-ewma", "--proximal-decay", "1"),
        ("--total-timesteps", "9007199254740992"), ("--keep-checkpoints", "-1"), ("--out", ""), ("--out", "/"),
    ],
    ids=lambda flags: " ".join(flags)[:40],
)  # fmt: skip
def test_flags_that_cannot_be_meant_create_nothing(
    flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--num-envs", "4", *([] if "--algo" in flags else ["--num-steps", "8"]), *flags]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error [")
    assert len(shown.err.splitlines()) == 2
    assert len(shown.err) < 1500
    assert list(tmp_path.iterdir()) == []
