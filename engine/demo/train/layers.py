"""The parts of an Inkling layer in plain torch: norm, short convolution, relative attention, dense and routed MLP.

Written for short sequences on a CPU: local layers attend by blocks of one window, and the relative bias is laid out by padding and
reshaping instead of gathering. Values equal transformers' Inkling (tests/demo holds the comparison). No cache: training only.
Source of the structure: the published architecture; the trick for the bias is Transformer-XL's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.demo.shape import Shape
from engine.demo.train.moe import RoutedExperts

NEG = float("-inf")


class Norm(nn.Module):
    """RMS norm with a gain, in fp32."""

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class _Conv(torch.autograd.Function):
    """Depthwise causal convolution with residual: x [b, t, c], taps [c, 4], the last tap being the current token."""

    @staticmethod
    def forward(ctx, x: Tensor, taps: Tensor) -> Tensor:
        ctx.save_for_backward(x, taps)
        last = taps.shape[1] - 1
        y = x * (1 + taps[:, last])
        for back in range(1, min(last + 1, x.shape[1])):
            y[:, back:].addcmul_(x[:, :-back], taps[:, last - back])
        return y

    @staticmethod
    def backward(ctx, *grads: Tensor):
        (g,) = grads
        x, taps = ctx.saved_tensors
        last = taps.shape[1] - 1
        gx = g * (1 + taps[:, last])
        gt = torch.zeros_like(taps)
        gt[:, last] = (g * x).sum((0, 1))
        for back in range(1, min(last + 1, x.shape[1])):
            gx[:, :-back].addcmul_(g[:, back:], taps[:, last - back])
            gt[:, last - back] = (g[:, back:] * x[:, :-back]).sum((0, 1))
        return gx, gt


class ShortConv(nn.Module):
    """Inkling's sconv: kernel 4, no bias, residual inside, fp32."""

    def __init__(self, width: int, kernel: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, kernel))

    def forward(self, x: Tensor) -> Tensor:
        """Convolve [b, t, c] along t."""
        return _Conv.apply(x.float(), self.weight)  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Relative attention of one layer, local (`window` set) or global."""

    def __init__(self, dims: Shape, *, is_global: bool):
        super().__init__()
        self.dims, self.is_global = dims, is_global
        h, width = dims.hidden, dims.heads * dims.head_dim
        self.q = nn.Linear(h, width, bias=False)
        self.k = nn.Linear(h, dims.kv_heads * dims.head_dim, bias=False)
        self.v = nn.Linear(h, dims.kv_heads * dims.head_dim, bias=False)
        self.r = nn.Linear(h, dims.heads * dims.d_rel, bias=False)
        self.o = nn.Linear(width, h, bias=False)
        self.k_sconv = ShortConv(dims.kv_heads * dims.head_dim, dims.conv_taps)
        self.v_sconv = ShortConv(dims.kv_heads * dims.head_dim, dims.conv_taps)
        self.q_norm, self.k_norm = Norm(dims.head_dim), Norm(dims.head_dim)
        self.bank = nn.Parameter(torch.zeros(dims.d_rel, dims.extent if is_global else dims.window))

    def forward(self, x: Tensor) -> Tensor:
        """Attend within each sequence of x [b, t, h]; t is at most one window or a multiple of it."""
        d = self.dims
        b, t, _ = x.shape
        q = self.q_norm(self.q(x).view(b, t, d.heads, d.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_sconv(self.k(x)).view(b, t, d.kv_heads, d.head_dim)).transpose(1, 2)
        v = self.v_sconv(self.v(x)).view(b, t, d.kv_heads, d.head_dim).transpose(1, 2)
        rel = (self.r(x).view(b, t, d.heads, d.d_rel) @ self.bank).transpose(1, 2)
        if self.is_global:
            at = torch.arange(1, t + 1, device=x.device, dtype=torch.float32)
            tau = (1 + d.log_alpha * torch.log((at / d.log_floor).clamp(min=1.0))).view(1, 1, t, 1)
            q, rel = q * tau, rel * tau
        q = q / d.head_dim
        group = d.heads // d.kv_heads
        banded = not self.is_global and t > d.window
        out = _banded(q, k, v, rel, d.window, group) if banded else _full(q, k, v, rel, group)
        return self.o(out.transpose(1, 2).reshape(b, t, -1))


def _mix(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Softmax attention with an additive bias over flattened leading axes; the softmax is fp32."""
    lead = q.shape[:-2]
    scores = torch.bmm(q.flatten(0, -3), k.flatten(0, -3).transpose(1, 2)).view(bias.shape) + bias
    return torch.bmm(torch.softmax(scores.float(), dim=-1).flatten(0, -3), v.flatten(0, -3)).view(*lead, q.shape[-2], -1)


def _full(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, group: int) -> Tensor:
    """Causal attention over all pairs; bias column d is distance d, zero beyond the bank."""
    b, heads, t, reach = rel.shape
    rel = F.pad(rel, (0, t - reach)) if reach < t else rel[..., :t]
    # Reverse, pad one column on the left, read with rows one shorter: row i then starts at distance i.
    bias = F.pad(rel.flip(-1), (1, 0)).reshape(b, heads, t + 1, t)[:, :, 1:]
    bias = bias + torch.full((t, t), NEG, device=rel.device).triu(1)
    return _mix(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), bias)


def _banded(q: Tensor, k: Tensor, v: Tensor, rel: Tensor, w: int, group: int) -> Tensor:
    """Sliding-window attention by blocks of `w` queries over the block before and their own."""
    b, heads, t, _ = rel.shape
    if t % w:
        raise ValueError(f"a sequence longer than one window of {w} must be a multiple of it, got {t}; pad it")
    n = t // w
    f = F.pad(rel.flip(-1).reshape(b, heads, n, w, w), (0, w + 1), value=NEG).flatten(-2)
    # Rows of length 2w+1 read with rows of 2w: row i is shifted right by i, one more by the pad in front.
    bias = F.pad(f, (1, 0), value=NEG)[..., : 2 * w * w].reshape(b, heads, n, w, 2 * w)

    def pairs(x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, w, 0)).view(b, -1, n + 1, w, x.shape[-1])
        return torch.cat([x[:, :, :-1], x[:, :, 1:]], dim=3).repeat_interleave(group, 1)

    first = torch.zeros(n, 1, 2 * w, device=rel.device)
    first[0, :, :w] = NEG
    return _mix(q.reshape(b, heads, n, w, -1), pairs(k), pairs(v), bias + first).reshape(b, heads, t, -1)


class DenseMLP(nn.Module):
    """SwiGLU with Inkling's output scale."""

    def __init__(self, hidden: int, width: int):
        super().__init__()
        self.gate = nn.Linear(hidden, width, bias=False)
        self.up = nn.Linear(hidden, width, bias=False)
        self.down = nn.Linear(width, hidden, bias=False)
        self.global_scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to [..., h]."""
        return self.down(F.silu(self.gate(x)) * self.up(x)) * self.global_scale


class RoutedMLP(nn.Module):
    """Sigmoid router, `top_k` routed experts chosen with a load-balancing bias, shared experts as sinks."""

    def __init__(self, dims: Shape):
        super().__init__()
        self.dims = dims
        h, e, c, s = dims.hidden, dims.experts, dims.expert_width, dims.sinks
        self.gate = nn.Parameter(torch.empty(e + s, h))
        self.global_scale = nn.Parameter(torch.ones(1))
        self.w13 = nn.Parameter(torch.empty(e, 2 * c, h))
        self.w2 = nn.Parameter(torch.empty(e, h, c))
        self.shared_gate = nn.Parameter(torch.empty(s, c, h))
        self.shared_up = nn.Parameter(torch.empty(s, c, h))
        self.shared_down = nn.Parameter(torch.empty(s, h, c))
        self.bias: Tensor
        self.register_buffer("bias", torch.zeros(e))
        self.load: Tensor
        self.register_buffer("load", torch.zeros(e), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to [b, t, h]; counts the load of each expert while training."""
        d, flat = self.dims, x.reshape(-1, x.shape[-1])
        # The router stays fp32: near ties must not depend on autocast.
        with torch.autocast(flat.device.type, enabled=False):
            logits = flat.float() @ self.gate.t()
        routed, shared = logits.split([d.experts, d.sinks], dim=-1)
        idx = torch.topk(routed.sigmoid() + self.bias, d.experts_per_token, dim=-1).indices
        if self.training:
            self.load += torch.bincount(idx.reshape(-1), minlength=d.experts)
        chosen = F.logsigmoid(torch.cat([routed.gather(-1, idx), shared], dim=-1))
        weights = torch.softmax(chosen, dim=-1) * (d.route_scale * self.global_scale)
        dtype = torch.get_autocast_dtype(flat.device.type) if torch.is_autocast_enabled(flat.device.type) else flat.dtype
        flat = flat.to(dtype)
        out: Tensor = RoutedExperts.apply(flat, idx, weights[:, : d.experts_per_token], self.w13, self.w2)  # type: ignore[assignment]
        gate = flat @ self.shared_gate.to(dtype).flatten(0, 1).t()
        up = flat @ self.shared_up.to(dtype).flatten(0, 1).t()
        act = F.silu(gate) * up * weights[:, d.experts_per_token :].repeat_interleave(d.expert_width, 1).to(dtype)
        down = self.shared_down.to(dtype).transpose(0, 1).reshape(d.hidden, -1)
        return (out + act @ down.t()).view(x.shape)

    @torch.no_grad()
    def balance(self, step: float) -> None:
        """Move each expert's selection bias by `step` towards equal load, and forget the counts."""
        self.bias += step * torch.sign(self.load.mean() - self.load)
        self.load.zero_()


class Layer(nn.Module):
    """One Inkling layer: attention and MLP, each normed before, short-convolved after, added to the stream."""

    def __init__(self, dims: Shape, *, is_global: bool, dense: bool):
        super().__init__()
        self.attn_norm, self.mlp_norm = Norm(dims.hidden), Norm(dims.hidden)
        self.attn = Attention(dims, is_global=is_global)
        self.attn_sconv, self.mlp_sconv = ShortConv(dims.hidden, dims.conv_taps), ShortConv(dims.hidden, dims.conv_taps)
        self.mlp = DenseMLP(dims.hidden, dims.dense_width) if dense else RoutedMLP(dims)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to [b, t, h]."""
        x = x + self.attn_sconv(self.attn(self.attn_norm(x)))
        return x + self.mlp_sconv(self.mlp(self.mlp_norm(x)))
