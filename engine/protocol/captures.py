"""The layout of a capture on the engine's disk and over HTTP, and what a capture costs.

One folder per capture: ``manifest.json`` and one ``<seam>.<array>.npy`` per array (C order, little endian). Dimensions carry the
project's index letters; `q` is a query token. Slices travel as raw ``.npy`` bytes; nothing here is JSON but the manifest. Written
by the engine's workers, read by the kernel's routes; the client turns it into labelled arrays (``workbench.captures``).

    array                    dims             meaning
    routing.expert           t,l,k            chosen expert, as the router returned them (uint8, or uint16 above 256 experts)
    routing.weight           t,l,k            its share times route_scale and global_scale, as applied
    routing.sink             t,l,s            weight of each shared expert ("sink"), same scale
    routing.logits           t,l,e            raw logits of the routed experts, then of the sinks; no bias, no padding
    sconv.input              t,l,site         L2 norm of a convolution's input
    sconv.term               t,l,site         L2 norm of what it adds to its input
    sconv.cosine             t,l,site         between both
    sconv.by_tap             t,l,site,tap     what each tap contributes to the term's norm (along the term; the taps sum to it)
    sconv.channel_input      t,l,site,c       input, and
    sconv.channel_term       t,l,site,c       term, of every channel
    sconv.kernel             l,site,c,tap     the weights; the last tap is the current token's
    attention.weight         q,l,h,(t|k|span) weight of a key, or of all keys of a span
    attention.content        as weight        whole, topk: logit of the content, q·k / d. Pooled: sum of weight × it
    attention.bias           as weight        whole, topk: logit of the relative bias. Pooled: sum of weight × it
    attention.key            q,l,h,k          topk: position of the key
    attention.bucket_*       q,l,h,b          pooled: the same three per bucket
    attention.scaling        q,l              logarithmic factor (1 in local layers): logit = scaling × (content + bias)
    attention.logsumexp      q,l,h            of all logits of the row: weight = exp(logit - logsumexp)
    attention.entropy        q,l,h            bits
    attention.distance       q,l,h            mean distance to the keys, tokens
    attention.inside         q,l,h            weight within the reach of the relative bias (a local layer's window)
    attention.inside_content q,l,h            the same without the relative bias
    attention.bias_bits      q,l,h            how far the bias moves the row: KL(row | row without bias), bits
    attention.size_content   q,l,h            mean magnitude of the content's logit, under the row
    attention.size_bias      q,l,h            mean magnitude of the bias's logit, under the row
    attention.profile        q,l,h,d          relative bias by distance d, as mixed by the query token
    attention.bank           l,r,d            the layer's bank of distance profiles: a weight
    residual.norm            t,l,site         L2 norm of the stream after each addition
    residual.vector          t,l,site,c       the stream itself
    residual.lens_token      t,l,k            likeliest next tokens after the layer, by the model's final norm and head
    residual.lens_logprob    t,l,k            their log-probability
    drafts.token             t,depth          what draft head `depth` (from 1) proposes for token t + 1 + depth, knowing the
                                              context up to token t + depth
    drafts.logprob           t,depth          the proposal's log-probability, by that head
    drafts.accepted          t,depth          1: this proposal and those of all smaller depths at `t` are the context's tokens, so a
                                              step that drafts behind `t` has it accepted; 0: not; -1: the context ends before

Everything but ids and verdicts is float32. A cell that a layer does not have (a distance beyond its window, a channel it lacks, a
key it cannot see, be it for an intervention) is NaN; its attention weight is 0.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

CAPTURE_LAYOUT = 2
"""Version of this layout; a reader refuses another one."""


class ArrayEntry(BaseModel):
    """One array of a capture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str


class CaptureManifest(BaseModel):
    """What a capture holds and how it came about.

    Attributes
    ----------
    context : str
        Id of the rendered context that was run.
    tokens : int
        Length of `t`.
    layers : dict of str to list of int
        Coordinate `l` per seam: indices of the layers in the model (routing has MoE layers only); of drafts, `depth`.
    ranges : dict of str to list of (start, stop)
        Coordinate `t` (attention: `q`) per seam, where it is not every token.
    labels : dict of str to list of str
        Coordinates of other dimensions that have names: ``site`` per seam, as ``"sconv.site"``; and ``attention.head`` numbers.
    edges : list of int
        First token of each span a pooled capture was summed over.
    covered_tokens : int
        Tokens (of the seam that has the fewest) whose rows were written exactly once by every layer.
    coverage : dict of str to (int, int)
        Per seam: rows written exactly once, rows asked for.
    complete : bool
        Every asked row of every seam was written exactly once.
    problems : list of str
        What is wrong with it, in words.
    provenance : dict
        Model, revision, engine arguments, kernel set, versions, seed, media hashes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    layout: int = CAPTURE_LAYOUT
    id: str
    context: str
    plan: dict[str, Any]
    tokens: int
    arrays: dict[str, ArrayEntry]
    layers: dict[str, list[int]]
    ranges: dict[str, list[tuple[int, int]]] = {}
    labels: dict[str, list[str]] = {}
    edges: list[int] = []
    covered_tokens: int
    coverage: dict[str, tuple[int, int]] = {}
    complete: bool
    problems: list[str] = []
    provenance: dict[str, Any]


class CaptureCost(BaseModel):
    """What a capture would cost, before it runs.

    Attributes
    ----------
    disk_bytes : int
        What is written on the engine's disk.
    memory_bytes : int
        What recording holds in each worker at most, beside the engine.
    compute_tokens : int
        Tokens that are computed for it at least: those from the first selected one on. How many more depends on where before it
        the prefix cache keeps a checkpoint: at most `tokens` in all.
    seconds : float or None
        For computing them, at the speed of this engine's last captures; None before the first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    disk_bytes: int
    memory_bytes: int
    tokens: int
    compute_tokens: int
    seconds: float | None = None
    seams: dict[str, int] = {}

    def __str__(self) -> str:
        took = "" if self.seconds is None else f", about {self.seconds:,.0f} s"
        return f"{self.disk_bytes / 1e6:,.1f} MB on disk, {self.compute_tokens:,} of {self.tokens:,} tokens to compute{took}"


class CaptureJob(BaseModel):
    """State of a capture job, as the kernel reports it. A cancelled or failed one may have a manifest: of what was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    done_tokens: int = 0
    total_tokens: int
    cost: CaptureCost
    folder: str = ""
    error: dict[str, Any] | None = None
    manifest: CaptureManifest | None = None
