"""The verification: its comparison on replies made for it, and the whole of it on the demo."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.protocol import Reply, Timings, TokenLogprob, Usage
from workbench.verifying import Check, Verification, compare, verify


def reply(*steps: tuple[int, float, dict[int, float]]) -> Reply:
    return Reply(
        text="", reasoning="", tool_calls=(), token_ids=np.asarray([token for token, _, _ in steps], dtype=np.uint32),
        usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=len(steps)),
        timings=Timings(first_token_s=0.1, total_s=0.2),
        finish_reason="length", context="sha256:x", request_id="r",
        logprobs=tuple(TokenLogprob(token_id=token, logprob=p, alternatives=others) for token, p, others in steps),
    )  # fmt: skip


DECODED = reply((5, -0.1, {5: -0.1, 6: -3.0}), (7, -0.70, {7: -0.70, 8: -0.71}), (9, -0.2, {9: -0.2}))


def step(token: int, chance: float):
    return token, {token: chance}


def test_equal_tokens_within_tolerance_pass() -> None:
    check = compare("x", DECODED, [(0, step(5, -0.1005)), (2, step(9, -0.2))], 1e-3)
    assert check.passed
    assert check.values["worst"] == pytest.approx(0.0005)


def test_a_log_probability_beyond_the_tolerance_fails() -> None:
    assert compare("x", DECODED, [(0, step(5, -0.2))], 1e-3).passed is False


def test_another_token_fails_unless_it_is_a_near_tie() -> None:
    wrong = compare("x", DECODED, [(0, step(6, -0.1))], 0.1)
    assert wrong.passed is False
    assert "no near-tie" in wrong.sentence
    unknown = compare("x", DECODED, [(0, step(99, -0.1))], 0.1)
    assert unknown.passed is False
    # Behind a near-tie the texts part: nothing more is compared.
    tie = compare("x", DECODED, [(1, step(8, -0.70)), (2, step(1, -9.0))], 0.1)
    assert tie.passed
    assert tie.values["ties"] == 1


def test_the_report_says_what_failed_and_survives_its_file(tmp_path: Path) -> None:
    checks = (
        Check(name="fit", passed=True, sentence="fits"),
        Check(name="seam: sconv", passed=None, sentence="does not fire here"),
    )
    good = Verification(checks=checks, engine={"model": "m", "hardware": "4 × GB300"}, took_s=3.0)
    assert good.passed
    bad = Verification(checks=(*checks, Check(name="speed", passed=False, sentence="slow")), engine=good.engine, took_s=3.0)
    assert not bad.passed
    assert "FAIL speed: slow" in str(bad)
    assert "NOT verified: m on 4 × GB300" in str(bad)
    assert not Verification(checks=checks, engine=good.engine, took_s=601.0).passed
    bad.save(tmp_path / "verify.json")
    assert json.loads((tmp_path / "verify.json").read_text("utf-8"))["passed"] is False


@pytest.mark.engine
@pytest.mark.slow
def test_the_demo_verifies(eng) -> None:
    report = verify(eng, speed_tokens=16)
    assert report.passed, str(report)
    answers = {check.name: check.passed for check in report.checks}
    assert answers["fit"] is True
    assert answers["parity: prompts and decoding"] is True
    assert answers["parity: resumed prefix and decoding, twice"] is True
    assert answers["seam: routing"] is True
    assert answers["speed"] is None  # nothing is published for a CPU
