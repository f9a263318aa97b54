"""Faults of vLLM 0.32 that are worked round by a function of our own in its place.

Most faults met are worked round where the kernel concerned is written, or in the engine kernel; ``docs/upstream.md`` lists them all
with their reproductions, and each has a test that fails when vLLM has mended it. What has no other home is here.
"""

from __future__ import annotations

from typing import Any


def cache_inputs(
    input_buffers: Any,
    draft_input_embeds: Any,
    draft_input_hidden_states: Any,
    cached_draft_input_ids: Any,
    cached_draft_input_embeds: Any,
    cached_target_hidden_states: Any,
    last_token_indices: Any,
    idx_mapping: Any,
    num_reqs: int,
    num_speculative_steps: int,
    use_input_embeds: bool,
) -> None:
    """vLLM's function of this name, but what is kept from earlier steps moves along.

    vLLM writes the last inputs of a step to the end of a request's window and leaves the rest of the window where it was. A step
    with fewer rows than the window (the last chunk of a prompt, a step with few drafts) then leaves inputs of other positions
    there, which the later blocks compute anew at the wrong place: drafts get worse until they are overwritten.
    """
    from . import drafts

    kept, bounds, places = num_speculative_steps - 1, input_buffers.query_start_loc.tolist(), input_buffers.positions
    windows = [cached_draft_input_ids, cached_target_hidden_states]
    if use_input_embeds:
        windows.append(cached_draft_input_embeds)
    # Position of the newest input that each request state keeps; noted on the tensor, which lives as long as the runner.
    newest: dict[int, int] = cached_draft_input_ids.__dict__.setdefault("newest", {})
    for row, (state, last) in enumerate(zip(idx_mapping.tolist(), last_token_indices.tolist(), strict=True)):
        if state < 0:
            continue
        stay, place = kept - (last + 1 - bounds[row]), int(places[last])
        moved = place - newest.get(state, place)
        if stay > 0 and 0 < moved <= kept - stay:
            for window in windows:
                window[state, :stay] = window[state, moved : moved + stay].clone()
        newest[state] = place
    drafts.cache_inputs(
        input_buffers.input_ids, draft_input_embeds, 0, draft_input_hidden_states, 0, cached_draft_input_ids, 0,
        cached_draft_input_embeds, 0, 0, cached_target_hidden_states, 0, 0, idx_mapping, last_token_indices,
        input_buffers.query_start_loc, num_speculative_steps, draft_input_hidden_states.shape[-1], 1, use_input_embeds,
    )  # fmt: skip
