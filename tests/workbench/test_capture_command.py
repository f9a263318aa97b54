"""Capture plans as flags; the command itself runs in the tests of commands."""

from __future__ import annotations

import argparse

import pytest

from engine.errors import BadRequest
from engine.protocol import AttentionPlan, CapturePlan, ResidualPlan, RoutingPlan, SconvPlan
from workbench.cli import main
from workbench.cli.capture_plans import add_plan_arguments, plan_of


def plan(*words: str) -> CapturePlan:
    parser = argparse.ArgumentParser()
    add_plan_arguments(parser)
    return plan_of(parser.parse_args(words))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), CapturePlan(routing=True)),
        (("--logits",), CapturePlan(routing=RoutingPlan(logits=True))),
        (("--routing", "--sconv", "norms"), CapturePlan(routing=True, sconv=SconvPlan(keep="norms"))),
        (
            ("--attention", "last", "--keep", "topk", "--heads", "0,2-3"),
            CapturePlan(attention=AttentionPlan(keep="topk", heads=(0, 2, 3))),
        ),
        (
            ("--lens", "4", "--tokens", "3-5,9", "--layers", "local"),
            CapturePlan(residual=ResidualPlan(lens=4, tokens=(3, 4, 5, 9), layers="local")),
        ),
    ],
)
def test_flags_make_plans(words: tuple[str, ...], wanted: CapturePlan) -> None:
    assert plan(*words).resolve(20) == wanted.resolve(20)


@pytest.mark.parametrize("words", [("--tokens", "a,b"), ("--layers", "5-3"), ("--attention", "nobody"), ("--lens", "99")])
def test_what_is_no_plan_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        plan(*words)


def test_a_capture_needs_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "What?"]) == 2
    assert "--out" in capsys.readouterr().err
