"""The official tokenizer as a ``tokenizer.json``, built from the model makers' own rank file.

``tml_renderers`` ships the o200k ranks and the names of the special tokens; an engine wants a Hugging Face tokenizer. A pair may
merge when its concatenation has a rank, lowest rank first: every split of a token into two tokens becomes a merge rule at that
token's rank, and a piece that is itself a token is taken whole. Ordinary text then encodes as ``encode_ordinary`` does (tests hold
it on a corpus); text that spells a special token does not, because an engine's tokenizer parses it.

Knows nothing of checkpoints. Needs ``tml_renderers`` and ``tokenizers`` (vLLM brings the latter).
"""

from __future__ import annotations

import base64
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
PIECES = "|".join([
    rf"{_LEAD}[{_UPPER}]*[{_LOWER}]+{_SUFFIX}",
    rf"{_LEAD}[{_UPPER}]+[{_LOWER}]*{_SUFFIX}",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])  # fmt: skip
"""How o200k cuts text into the pieces that BPE works on."""


def build_tokenizer() -> Tokenizer:
    """The tokenizer: 199,998 ordinary tokens and 60 special ones, 200,058 ids in all. About 3 s."""
    from tml_renderers.tokenizers import O200kBaseChatTokenizer
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    known = ranks()
    letters = _byte_letters()
    spell = {token: "".join(letters[byte] for byte in token) for token in known}
    rules = [
        (rank, known[token[:cut]], known[token[cut:]], spell[token[:cut]], spell[token[cut:]])
        for token, rank in known.items()
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]
    rules.sort()
    vocab = {spell[token]: rank for token, rank in known.items()}
    tokenizer = Tokenizer(BPE(vocab, [rule[3:] for rule in rules], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PIECES), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    official = O200kBaseChatTokenizer()
    for name in official.special_tokens():
        # Added in id order, directly behind the ordinary ones: the library numbers them.
        tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True, normalized=False)])
        if tokenizer.token_to_id(f"<|{name}|>") != official.encode_special(name):
            raise ValueError(f"<|{name}|> is {official.encode_special(name)} in tml_renderers, which moved its special tokens")
    return tokenizer


def tokenizer_config(context_tokens: int) -> dict[str, object]:
    """``tokenizer_config.json``: a plain fast tokenizer that adds nothing of its own."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|content_model_end_sampling|>",
        "model_max_length": context_tokens,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "add_eos_token": False,
    }


def ranks() -> dict[bytes, int]:
    """Ordinary tokens with their ids, which are also their merge ranks."""
    import tml_renderers

    path = Path(tml_renderers.__file__).parent / "data" / "o200k_base.tiktoken"
    pairs = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


@lru_cache(1)
def _byte_letters() -> tuple[str, ...]:
    """The printable letter that stands for each byte in byte-level BPE: itself where printable, else the next free above 255."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in plain else next(spare)) for byte in range(256))
