"""What transformers' Inkling does inside for some ids: the oracle of captures, taken by torch's hooks on its modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.demo.shape import VOCABULARY


class Seen:
    """What transformers' modules did for some ids: taken by hooks of torch, nothing of ours."""

    def __init__(self, oracle: Any, ids: list[int], **media: Any) -> None:
        import torch

        text = oracle.model.language_model
        before = text.config._attn_implementation
        text.config._attn_implementation = "eager"
        self.conv: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]] = {}
        self.weight: dict[int, np.ndarray] = {}
        self.residual: dict[tuple[int, str], np.ndarray] = {}
        self.gate: dict[int, tuple[np.ndarray, ...]] = {}
        handles = []
        for layer, module in enumerate(text.layers):
            sites = {
                "k": module.self_attn.k_sconv,
                "v": module.self_attn.v_sconv,
                "attention": module.attn_sconv,
                "mlp": module.mlp_sconv,
            }
            for site, conv in sites.items():
                handles.append(conv.register_forward_hook(self._conv(layer, site), with_kwargs=True))
            handles.append(module.self_attn.register_forward_hook(self._attention(layer)))
            handles.append(module.post_attention_layernorm.register_forward_hook(self._stream(layer, "attention", inputs=True)))
            handles.append(module.register_forward_hook(self._stream(layer, "mlp")))
            if hasattr(module.mlp, "gate"):
                handles.append(module.mlp.gate.register_forward_hook(self._gate(layer)))
        try:
            with torch.no_grad():
                self.logits = oracle(torch.tensor([ids]), use_cache=False, **media).logits[0].numpy()
        finally:
            text.config._attn_implementation = before
            for handle in handles:
                handle.remove()
        self.head = lambda rows: _head(oracle, rows)

    def _conv(self, layer: int, site: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any, out: Any) -> None:
            x = (args[0] if args else kwargs["hidden_states"])[0]
            self.conv[layer, site] = x.numpy(), (out[0] - x).numpy()

        return hook

    def _attention(self, layer: int) -> Any:
        def hook(module: Any, args: Any, out: Any) -> None:
            self.weight[layer] = out[1][0].numpy()

        return hook

    def _stream(self, layer: int, site: str, *, inputs: bool = False) -> Any:
        def hook(module: Any, args: Any, out: Any) -> None:
            value = args[0] if inputs else (out[0] if isinstance(out, tuple) else out)
            self.residual[layer, site] = value[0].numpy()

        return hook

    def _gate(self, layer: int) -> Any:
        def hook(module: Any, args: Any, out: Any) -> None:
            self.gate[layer] = tuple(value.numpy() for value in out)

        return hook


def _head(oracle: Any, rows: np.ndarray) -> np.ndarray:
    """Log-probabilities of the model's own norm and head over `rows`."""
    import torch

    with torch.no_grad():
        hidden = oracle.model.language_model.norm(torch.from_numpy(rows))
        scale = oracle.config.text_config.logits_mup_width_multiplier or 1.0
        # What lies beyond the vocabulary is padding and never competes.
        return torch.log_softmax(oracle.lm_head(hidden)[..., :VOCABULARY] / scale, dim=-1).numpy()
