"""Claims: every rule of thumb has one, records are checked, and an untested claim is never given a verdict."""

import json
import subprocess
import sys
from typing import Any

import pytest

from rollshape.geometry.rules import PAGES, explain_document
from rollshape.geometry.rules.base import CHECKS
from rollshape.geometry.rules.claims import CLAIMS, EXACT_RULES, Claim, claims_about
from rollshape.geometry.rules.evidence import RESULTS_FILE, load_results, parse_results

RECORD: dict[str, Any] = {
    "claim": "more-envs", "task": "CartPole-v1", "verdict": "refuted", "seeds": 5, "scope": "CartPole-v1 (5 seeds)",
    "effects": [{"contrast": "a minus b", "measure": "final return", "value": -2.0, "low": -3.0, "high": -1.0}],
    "command": "rollshape study demo", "date": "2026-11-18", "origin": "study",
}  # fmt: skip


def test_every_finding_rests_on_a_claim_or_is_exact() -> None:
    about = {rule for claim in CLAIMS.values() for rule in claim.rules}
    assert CHECKS.keys() <= about | EXACT_RULES
    assert not about & EXACT_RULES
    assert about | EXACT_RULES <= PAGES.keys()


def test_a_claim_has_results_or_says_why_not() -> None:
    assert {result.claim for result in load_results()} <= CLAIMS.keys()
    for claim in CLAIMS.values():
        assert bool(claim.results) != bool(claim.untested), claim.id
        assert claim.sentence.endswith(".")


def test_an_untested_claim_is_listed_as_such() -> None:
    claim = Claim("new", "More is better.", "nobody", untested="there is no data.")
    assert claim.summary() == "not tested: there is no data."
    assert claim.lines() == ["“More is better.” (nobody)", "  not tested: there is no data."]
    assert claim.to_dict()["results"] == []


def test_a_rule_prints_the_verdict_with_effect_interval_seeds_and_command() -> None:
    text = "\n".join(line for claim in claims_about("edge-weight") for line in claim.lines())
    assert "refuted on CartPole-v1 (300k steps, lr 3e-4, 20 seeds)" in text
    assert "1024×2 minus 2×1024, final return: -287.3 (-356.4 … -206)" in text
    assert "rollshape study tradeoff" in text
    document = explain_document("edge-weight")
    claim = next(claim for claim in document["claims"] if claim["id"] == "more-envs")
    assert {"task", "verdict", "effects", "seeds", "scope", "command", "date"} <= claim["results"][0].keys()
    json.dumps(document, allow_nan=False)
    assert explain_document("divisibility")["claims"] == []


def test_records_survive_writing() -> None:
    documents = json.loads(RESULTS_FILE.read_text())
    assert parse_results(json.dumps(documents)) == load_results()
    assert [json.loads(json.dumps(result.to_dict())) for result in load_results()] == documents


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"verdict": "probably"}, "verdict is 'probably'"),
        ({"seeds": 0}, "seeds, command and scope"),
        ({"command": ""}, "seeds, command and scope"),
        ({"date": "yesterday"}, "isoformat"),
        ({"effects": [RECORD["effects"][0] | {"low": 0.0}]}, "outside of its interval"),
        ({"effects": [RECORD["effects"][0] | {"value": "much"}]}, "value is 'much'"),
        ({"effects": [{"contrast": "a"}]}, "not a record"),
        ({"surprise": 1}, "unknown: surprise"),
        ({"seeds": None}, "seeds is null"),
    ],
)
def test_a_wrong_record_is_refused(changes: dict[str, Any], problem: str) -> None:
    assert parse_results(json.dumps([RECORD]))[0].effects[0].high == -1.0
    with pytest.raises(ValueError, match=problem):
        parse_results(json.dumps([RECORD | changes]))


def test_a_record_without_a_field_is_refused() -> None:
    with pytest.raises(ValueError, match="has no command"):
        parse_results(json.dumps([{name: value for name, value in RECORD.items() if name != "command"}]))
    with pytest.raises(ValueError, match="not a list"):
        parse_results(json.dumps(RECORD))


def test_claims_need_neither_numpy_nor_jax() -> None:
    code = (
        "import sys; from rollshape.geometry.rules import explain_document; explain_document('lr-minibatch');"
        "sys.exit(bool({'numpy', 'jax'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
