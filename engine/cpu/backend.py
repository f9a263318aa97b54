"""The attention backend of Inkling's layers on a CPU: metadata as it comes from the runner, pages of any size.

vLLM asks a layer for a backend to learn its page layout and to build the metadata of each step. The kernels themselves are called
by Inkling's own layer code (see :mod:`.attention`).
"""

from __future__ import annotations

from typing import Any, ClassVar

from vllm.v1.attention.backend import AttentionCGSupport, AttentionMetadataBuilder, CommonAttentionMetadata, MultipleOf
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionMetadata


class RelativeAttentionBuilder(AttentionMetadataBuilder[CPUAttentionMetadata]):
    """Passes on what the kernels read; plans nothing."""

    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.NEVER

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> CPUAttentionMetadata:
        common = common_attn_metadata
        return CPUAttentionMetadata(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            query_start_loc=common.query_start_loc,
            max_seq_len=common.max_seq_len,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
            scheduler_metadata=None,
        )


class RelativeAttentionBackend(CPUAttentionBackend):
    """vLLM's CPU backend without its limits on page and head sizes, which come from kernels that are not used here."""

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
        return [MultipleOf(1)]

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return []

    @staticmethod
    def get_builder_cls() -> Any:
        return RelativeAttentionBuilder
