"""What the engine kernel adds to every vLLM worker; methods are called through ``collective_rpc`` and answer between steps.

Importing this module in a worker installs the torch kernels where there is no GPU: vLLM imports it after the worker's platform is
set up and before the model is built. Knows vLLM's V2 model runner (0.32); knows no HTTP.
"""

from __future__ import annotations

from typing import Any

import engine.cpu

engine.cpu.install()


class WorkbenchWorker:
    """Mixed into vLLM's worker class by ``--worker-extension-cls``; every public name starts with ``workbench_``."""

    model_runner: Any
    rank: int

    def workbench_progress(self) -> dict[str, list[int]]:
        """Computed and total prompt tokens of each request a worker has seen: ``{request id: [computed, prompt]}``.

        A request that still waits for its first step is not among them. The granularity is one scheduler step.
        """
        states = self.model_runner.req_states
        return {
            request: [int(states.num_computed_prefill_tokens[index]), int(states.prefill_len.np[index])]
            for request, index in states.req_id_to_index.items()
        }

    def workbench_model(self) -> dict[str, Any]:
        """Sizes of the model as :class:`engine.protocol.Architecture` has them, and which seams can fire.

        Returns
        -------
        dict
            ``architecture``, ``seams`` (name, fires, reason), ``kernels`` ("torch" or "vllm") and ``dtype``.
        """
        config = self.model_runner.model_config.hf_config.get_text_config()
        local = set(config.local_layer_ids)
        return {
            "architecture": {
                "layers": config.num_hidden_layers,
                "global_layers": [layer for layer in range(config.num_hidden_layers) if layer not in local],
                "moe_layers": list(range(config.dense_mlp_idx, config.num_hidden_layers)),
                "experts": config.n_routed_experts,
                "experts_per_token": config.num_experts_per_tok,
                "sinks": config.n_shared_experts,
                "hidden": config.hidden_size,
                "vocabulary": config.vocab_size,
            },
            "seams": [],
            "kernels": "torch" if engine.cpu.active() else "vllm",
            "dtype": str(self.model_runner.model_config.dtype).removeprefix("torch."),
        }
