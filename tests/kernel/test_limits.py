"""Requests that do not fit the worker's tables; and the day vLLM checks them itself."""

from __future__ import annotations

import ast
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from engine.kernel import limits


def params(**changes: Any) -> Any:
    given = {
        "allowed_token_ids": None, "logit_bias": None, "min_tokens": 0, "all_stop_token_ids": set(), "bad_words_token_ids": None,
    }  # fmt: skip
    return SimpleNamespace(**given | changes)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"allowed_token_ids": list(range(1025))}, "allowed_token_ids"),
        ({"logit_bias": dict.fromkeys(range(1025), 1.0)}, "logit_bias"),
        ({"all_stop_token_ids": set(range(129)), "min_tokens": 1}, "stop_token_ids"),
        ({"bad_words_token_ids": [[1] * 600, [2] * 600]}, "bad_words"),
    ],
)
def test_too_many_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    from vllm.exceptions import VLLMValidationError

    check = limits.check_sizes if field in ("allowed_token_ids", "logit_bias") else limits.check_completed
    with pytest.raises(VLLMValidationError, match=field):
        check(params(**changes))


def test_as_many_as_fit_are_taken() -> None:
    fits = params(
        allowed_token_ids=list(range(1024)), logit_bias=dict.fromkeys(range(1024), 1.0), all_stop_token_ids=set(range(128)),
        min_tokens=1, bad_words_token_ids=[[1] * 1024],
    )  # fmt: skip
    limits.check_sizes(fits)
    limits.check_completed(fits)
    limits.check_completed(params(all_stop_token_ids=set(range(500))))  # without a minimum length the table is not used


def test_vllm_still_leaves_these_sizes_to_its_workers() -> None:
    """Mended upstream when this fails: then engine/kernel/limits.py can go."""
    from vllm import sampling_params

    names = {node.id for node in ast.walk(ast.parse(inspect.getsource(sampling_params))) if isinstance(node, ast.Name)}
    assert not {name for name in names if name.startswith("MAX_NUM_")}
    assert "VLLM_MAX_BAD_WORDS_TOTAL_TOKENS" not in inspect.getsource(sampling_params)
