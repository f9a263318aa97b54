"""The checkpoint check on headers of the real shapes: files of the real length that hold no data."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from engine.demo.random_weights import random_tensors
from engine.demo.shape import Shape
from engine.errors import BadRequest
from engine.inkling import ModelShape, published_names
from engine.inkling.headers import INDEX, check_headers
from engine.inkling.shape import CONFIGS
from engine.inkling.tensors import BYTES, tensors
from workbench.cli import main


def config_of(model: str) -> dict:
    return json.loads((CONFIGS / published_names()[model]).read_text("utf-8"))


def write_headers(folder: Path, shape: ModelShape, *, config: dict, files: int) -> None:
    """A checkpoint of holes: real config and headers, files of the real length, no data."""
    items = [tensor for tensor in tensors(shape) if tensor.shapes or not tensor.optional]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    where: dict[str, str] = {}
    for number in range(files):
        path = folder / f"model-{number + 1:05}-of-{files:05}.safetensors"
        entries, offset = {}, 0
        for tensor in items[number::files]:
            size = tensor.values * BYTES[tensor.dtypes[0]]
            sizes = list(tensor.shapes[0]) if tensor.shapes else [1]
            entries[tensor.name] = {"dtype": tensor.dtypes[0], "shape": sizes, "data_offsets": [offset, offset + size]}
            offset += size
            where[tensor.name] = path.name
        header = json.dumps(entries).encode()
        with path.open("wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + offset)
    total = sum(tensor.disk_bytes for tensor in items)
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": where}), "utf-8")


def holes(folder: Path, model: str = "thinkingmachines/Inkling-NVFP4", *, files: int = 8, **changes) -> Path:
    config = config_of(model) | changes
    write_headers(folder, ModelShape.from_config(config), config=config, files=files)
    return folder


def rewrite(path: Path, change) -> None:
    """Change a file's header; what follows stays a hole of the same length."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    size = path.stat().st_size - 8 - length
    change(header)
    new = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(new)) + new)
        file.truncate(8 + len(new) + size)


@pytest.mark.parametrize("model", ["thinkingmachines/Inkling-NVFP4", "thinkingmachines/Inkling-Small"])
def test_a_checkpoint_of_the_real_shapes_passes(tmp_path: Path, model: str) -> None:
    report = check_headers(holes(tmp_path / "c", model), drafts=8)
    assert [line for line in report.problems if "free here" not in line] == []
    assert report.tensors > 1000
    assert report.bytes == pytest.approx(report.expected_bytes, rel=0.01)
    assert (tmp_path / "c").stat().st_blocks < 1000  # nothing of it is data


def test_compressed_tensors_names_are_known(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c", quantization_config={"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})
    assert check_headers(folder).shape.quantization == "compressed-nvfp4"
    assert check_headers(folder).missing == check_headers(folder).unknown == check_headers(folder).wrong == ()


def test_underscored_scale_names_are_the_same_tensors(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c", files=1)

    def underscored(header: dict) -> None:
        for name in list(header):
            header[name.replace("_weight.scale2", "_weight_scale_2").replace("_weight.scale", "_weight_scale")] = header.pop(name)

    rewrite(next(folder.glob("*.safetensors")), underscored)
    assert check_headers(folder).missing == check_headers(folder).unknown == ()


def test_one_tensor_too_many_and_one_too_few_are_named(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c", files=1)
    gone = "model.llm.layers.7.attn.wr_du.weight"

    def swap(header: dict) -> None:
        header["model.llm.layers.7.attn.surplus"] = header.pop(gone)

    rewrite(next(folder.glob("*.safetensors")), swap)
    report = check_headers(folder)
    assert report.missing == (gone,)
    assert report.unknown == ("model.llm.layers.7.attn.surplus",)
    assert any(gone in line for line in report.problems)


def test_another_shape_and_another_type_are_named(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c", files=1)

    def change(header: dict) -> None:
        header["model.llm.layers.3.attn.wk_dv.weight"]["shape"] = [1024, 6144]  # a global layer's
        header["model.llm.layers.3.mlp.experts.w13_weight"]["dtype"] = "BF16"

    rewrite(next(folder.glob("*.safetensors")), change)
    wrong = check_headers(folder).wrong
    assert any("layers.3.attn.wk_dv" in line and "[2048, 6144]" in line for line in wrong)
    assert any("layers.3.mlp.experts.w13_weight" in line and "U8" in line for line in wrong)


def test_weights_of_another_quantization_than_the_config_says(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c", "thinkingmachines/Inkling", files=1)
    (folder / "config.json").write_text(json.dumps(config_of("thinkingmachines/Inkling-NVFP4")), "utf-8")
    report = check_headers(folder)
    assert any("w13_weight.scale" in name for name in report.missing)
    assert any("holds BF16, wanted U8" in line for line in report.wrong)


def test_missing_drafts_matter_only_when_they_are_wanted(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c", files=1)

    def shorten(header: dict) -> None:
        for name in [name for name in header if name.startswith("model.mtp.layers.7.")]:
            header[f"model.mtp.layers.9.{name}"] = header.pop(name)  # a block beyond the ones there are: never loaded

    rewrite(next(folder.glob("*.safetensors")), shorten)
    assert check_headers(folder).missing == ()
    assert check_headers(folder, drafts=7).missing == ()
    assert any("mtp.layers.7" in name for name in check_headers(folder, drafts=8).missing)


def test_a_half_downloaded_checkpoint_says_what_is_still_to_come(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c")
    paths = sorted(folder.glob("*.safetensors"))
    paths[0].unlink()
    with paths[1].open("r+b") as file:
        file.truncate(paths[1].stat().st_size - 5)
    report = check_headers(folder)
    assert any(f"{paths[0].name}" in line and "missing" in line for line in report.files)
    assert any(paths[1].name in line and "download it again" in line for line in report.files)
    assert report.bytes < report.expected_bytes


def test_transformers_names_get_a_hint(tmp_path: Path) -> None:
    folder = holes(tmp_path / "c", files=1)
    rewrite(
        next(folder.glob("*.safetensors")),
        lambda h: [h.update({n.replace(".attn.", ".self_attn."): h.pop(n)}) for n in list(h) if ".attn." in n],
    )
    assert any("transformers' own names" in line for line in check_headers(folder).problems)


def test_the_demo_itself_passes(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    shape = Shape()
    (tmp_path / "config.json").write_text(json.dumps(shape.config()), "utf-8")
    save_file(random_tensors(shape), tmp_path / "model.safetensors")
    assert check_headers(tmp_path, drafts=2).problems == ()


@pytest.mark.parametrize(
    "content", [b"", b"no weights at all", struct.pack("<Q", 1 << 60), struct.pack("<Q", 2) + b"[]" + bytes(8)]
)
def test_files_that_are_no_safetensors_are_named(tmp_path: Path, content: bytes) -> None:
    folder = holes(tmp_path / "c", files=2)
    path = sorted(folder.glob("*.safetensors"))[0]
    path.write_bytes(content)
    assert any(path.name in line for line in check_headers(folder).files)


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"config\.json"):
        check_headers(tmp_path)


def test_the_command_reports_and_its_status_says_whether_it_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import save_file

    shape = Shape()
    (tmp_path / "config.json").write_text(json.dumps(shape.config()), "utf-8")
    save_file(random_tensors(shape), tmp_path / "model.safetensors")
    assert main(["engine", "check", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "lost.safetensors"}}), "utf-8")
    assert main(["engine", "check", str(tmp_path)]) == 1
    assert "lost.safetensors" in capsys.readouterr().out
