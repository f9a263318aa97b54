"""Interventions on the tiny checkpoint of these tests, one or two of each kind; shared by the engine's process and the oracle."""

from __future__ import annotations

from engine.protocol import (
    BanExperts,
    DropLogScaling,
    ForceExperts,
    Intervention,
    MaskModality,
    MaskSpan,
    ReweightExperts,
    ScaleBias,
    ScaleSconv,
    ScaleSinks,
    StretchBias,
)

CASES: dict[str, tuple[Intervention, ...]] = {
    "ban": (BanExperts(layer=1, experts=(0, 1, 2)), BanExperts(layer=3, experts=(5,))),
    "force": (ForceExperts(layer=2, experts=(6, 3)),),
    "reweight": (ReweightExperts(layer=1, experts=(0, 1, 2, 3), factor=2.5),),
    "reweight-renormalised": (ReweightExperts(layer=2, experts=(4, 5, 6, 7), factor=0.1, renormalise=True),),
    "sinks": (ScaleSinks(factor=0.0),),
    "one-sink": (ScaleSinks(factor=3.0, layers=(2, 3), sinks=(1,), renormalise=True),),
    "sconv": (ScaleSconv(factor=0.0),),
    "sconv-keys": (ScaleSconv(factor=-0.5, sites=("k",), layers=(0, 3)),),
    "sconv-tap": (ScaleSconv(factor=0.0, sites=("v", "mlp"), taps=(1,)), ScaleSconv(factor=2.0, sites="attention", taps=(0, 3))),
    "bias": (ScaleBias(factor=0.0),),
    "bias-heads": (ScaleBias(factor=-1.5, layers="global", heads=(1, 2)), ScaleBias(factor=0.5, layers="local", heads=(0,))),
    "stretch": (StretchBias(factor=2.5, layers="global"), StretchBias(factor=0.4, layers="local", heads=(3,))),
    "log-scaling": (DropLogScaling(),),
    "mask": (MaskSpan(start=20, stop=60),),
    "mask-cut": (MaskSpan(start=30, stop=32, sconv=True), MaskSpan(start=90, stop=119, sconv=True)),
    "mask-heads": (MaskSpan(start=10, stop=25, layers="global", heads=(0, 3)), MaskSpan(start=70, stop=80, heads=(0,))),
    "many": (
        BanExperts(layer=1, experts=(2,)), ScaleSinks(factor=0.5), ScaleSconv(factor=0.5, taps=(2,)), ScaleBias(factor=0.5),
        DropLogScaling(), MaskSpan(start=40, stop=47, sconv=True),
    ),
}  # fmt: skip

SEEN = ("mask-heads", "mask-cut", "sconv-tap", "sconv-keys", "bias-heads", "stretch", "log-scaling", "many")
"""Cases under which captures are taken too: those whose numbers the capture works out anew."""

MEDIA_CASE: tuple[Intervention, ...] = (
    BanExperts(layer=2, experts=(1, 2)), ScaleSconv(factor=0.0, sites=("attention",)),
    MaskModality(modality="image", spans=((2, 17),), sconv=True), MaskModality(modality="audio", spans=((21, 33),)),
)  # fmt: skip
"""For a prompt of a picture and a recording; the spans are where the engine expands them to."""
