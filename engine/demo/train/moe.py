"""Routed experts as one autograd function: tokens sorted by expert, one matrix product per expert, no gathering of weights.

On one CPU core this is faster than evaluating all experts densely and than torch's grouped product. It knows nothing of the
router: it is given the chosen experts and their weights.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _silu_grad(x: Tensor) -> tuple[Tensor, Tensor]:
    s = torch.sigmoid(x)
    return x * s, s * (1 + x * (1 - s))


class RoutedExperts(torch.autograd.Function):
    """``sum_k w[n, k] * expert_{idx[n, k]}(x[n])`` with SwiGLU experts.

    Shapes: x [n, h], idx [n, k], w [n, k], w13 [e, 2c, h] (gate rows, then up rows), w2 [e, h, c]. Products run in `x`'s dtype.
    """

    @staticmethod
    def forward(ctx, x: Tensor, idx: Tensor, w: Tensor, w13: Tensor, w2: Tensor) -> Tensor:
        n, k = idx.shape
        experts, dtype = w13.shape[0], x.dtype
        w13, w2 = w13.to(dtype), w2.to(dtype)
        order = torch.argsort(idx.reshape(-1), stable=True)
        counts = torch.bincount(idx.reshape(-1), minlength=experts).tolist()
        token = order // k
        xs = x[token]
        hidden = x.new_empty(n * k, w13.shape[1])
        out = x.new_empty(n * k, x.shape[1])
        _per_expert(counts, lambda e, a, b: torch.mm(xs[a:b], w13[e].t(), out=hidden[a:b]))
        gate, up = hidden.float().chunk(2, dim=-1)
        act = (torch.nn.functional.silu(gate) * up).to(dtype)
        _per_expert(counts, lambda e, a, b: torch.mm(act[a:b], w2[e].t(), out=out[a:b]))
        ws = w.reshape(-1)[order]
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(n * k, device=order.device)
        ctx.save_for_backward(xs, hidden, act, out, ws, order, inverse, w13, w2)
        ctx.counts, ctx.shape = counts, (n, k)
        return (out.float() * ws[:, None])[inverse].view(n, k, -1).sum(1)

    @staticmethod
    def backward(ctx, *grads: Tensor):
        (grad,) = grads
        xs, hidden, act, out, ws, order, inverse, w13, w2 = ctx.saved_tensors
        n, k = ctx.shape
        counts, dtype = ctx.counts, xs.dtype
        gs = grad[order // k].float()
        grad_ws = (gs * out.float()).sum(-1)
        g_out = (gs * ws[:, None]).to(dtype)
        g_act = torch.empty_like(act)
        g_w2 = torch.zeros_like(w2)

        def down(e: int, a: int, b: int) -> None:
            torch.mm(g_out[a:b], w2[e], out=g_act[a:b])
            torch.mm(g_out[a:b].t(), act[a:b], out=g_w2[e])

        _per_expert(counts, down)
        gate, up = hidden.float().chunk(2, dim=-1)
        value, slope = _silu_grad(gate)
        ga = g_act.float()
        g_hidden = torch.cat([ga * up * slope, ga * value], dim=-1).to(dtype)
        g_xs = torch.empty_like(xs)
        g_w13 = torch.zeros_like(w13)

        def up_(e: int, a: int, b: int) -> None:
            torch.mm(g_hidden[a:b], w13[e], out=g_xs[a:b])
            torch.mm(g_hidden[a:b].t(), xs[a:b], out=g_w13[e])

        _per_expert(counts, up_)
        g_x = g_xs.float()[inverse].view(n, k, -1).sum(1).to(dtype)
        return g_x, None, grad_ws[inverse].view(n, k), g_w13.float(), g_w2.float()


def _per_expert(counts: list[int], run) -> None:
    start = 0
    for e, count in enumerate(counts):
        if count:
            run(e, start, start + count)
        start += count
