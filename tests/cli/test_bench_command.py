"""`rollshape bench`: one document with --json, one message for a wrong request, host environments."""

import json
from typing import Any

import pytest

from rollshape.cli import main

HOST = "gymnasium:CartPole-v1"
QUICK = ("--seconds", "0.001")


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_bench_times_host_environments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--env", HOST, "--shapes", "4x8", *QUICK, "--json"]) == 0
    (row,) = document(capsys)
    assert row["shape"] == "4x8"
    assert row["sps"] > 0
    assert 0 < row["utilisation"] < 1
    assert {"compile_s", "gemm_gflops", "peers", "sps_low", "sps_high"} <= set(row)


def test_knee_prints_one_document_or_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["bench", "--env", HOST, "--knee", "--num-steps", "8", "--max-envs", "4", *QUICK]
    assert main([*flags, "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert (result["env"], result["num_steps"]) == (HOST, 8)
    assert [row["num_envs"] for row in result["rows"]] == [1, 2, 4]
    assert result["rows"][0]["ratio"] is None
    assert result["rows"][2]["ratio"] == pytest.approx(result["rows"][2]["sps"] / result["rows"][1]["sps"], rel=0.01)
    assert result["knee"] in (None, 1)
    assert main(flags) == 0
    header, *rows, sentence = capfd.readouterr().out.splitlines()
    assert header.split()[:2] == ["N", "steps/s"]
    assert [row.split()[0] for row in rows][:3] == ["1", "2", "4"]
    assert all(row.endswith("in turns") for row in rows[3:])
    assert sentence.startswith(("Knee: 1 environment", "No knee up to 4 environments"))


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (["--knee", "--shapes", "4x8"], "contradiction"),
        (["--num-steps", "8"], "contradiction"),
        (["--max-envs", "8"], "contradiction"),
        (["--knee", "--max-envs", "0"], "whole-number"),
        (["--knee", "--num-steps", "5", "--max-envs", "2"], "flags"),
        (["--knee", "--num-steps", "1e12"], None),
        (["--knee", "--env", "gymnasium:NoSuchEnv-v9"], None),
        (["--shapes", "4x8", "--env", "NoSuchEnv-v9"], None),
        (["--shapes", "3x5", "--env", HOST], None),
    ],
)
def test_a_wrong_request_is_one_message(flags: list[str], rule: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *flags, "--json"]) == 2
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["fix"]
    assert rule in (None, error["rule"])
    assert len(shown.err.splitlines()) == 2
