"""`inkling doctor`: what would stop an engine is found and has a remedy; the report keeps the commands' conventions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import doctor


def inkling(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-c", "import sys; from workbench.cli import main; sys.exit(main())", *args]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False, timeout=240)


def test_this_machine_can_start_an_engine():
    """The whole examination, vLLM's import included."""
    done = inkling("doctor", "--json")
    report = json.loads(done.stdout)
    stops = [finding for finding in report["findings"] if finding["state"] == "stop"]
    assert done.returncode == 0, stops
    assert report["ok"] is True
    assert {"python", "gpu", "torch", "vllm", "plugins", "memory", "shared memory", "cache", "port"} <= {
        finding["name"] for finding in report["findings"]
    }


def test_a_broken_torchvision_stops_with_the_command_that_heals(tmp_path: Path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')", "utf-8")
    done = inkling("doctor", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "STOP  torch" in done.stdout
    assert "-m pip uninstall -y torchvision" in done.stdout
    assert "STOP  vllm" in done.stdout, "vLLM does not import either, and says so"


def test_too_little_memory_stops():
    assert doctor.check_memory(1 << 30).state == "stop"
    assert doctor.check_memory(64 << 30).state == "ok"
    assert 0 < doctor.available_memory_bytes() < 1 << 50


def test_a_cache_that_cannot_be_written_stops(tmp_path: Path):
    (tmp_path / "file").write_text("", "utf-8")
    finding = doctor.check_cache(tmp_path / "file" / "cache")
    assert finding.state == "stop"
    assert "INKLING_CACHE" in finding.remedy
    assert doctor.check_cache(tmp_path / "not" / "there" / "yet").state == "ok"


def test_a_runtime_folder_others_can_write_is_noted(tmp_path: Path):
    tmp_path.chmod(0o777)
    assert doctor.check_runtime(tmp_path).state == "note"
    tmp_path.chmod(0o700)
    assert doctor.check_runtime(tmp_path).state == "ok"
    assert doctor.check_runtime(tmp_path / "new").state == "ok"


def test_missing_shared_memory_stops(tmp_path: Path):
    assert doctor.check_shared_memory(tmp_path / "nowhere").state == "stop"
    assert "--shm-size" in doctor.check_shared_memory(tmp_path / "nowhere").remedy


def test_an_allowlist_that_keeps_our_plugins_out_stops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLLM_PLUGINS", "something_else")
    assert doctor.check_plugins().state == "stop"
    monkeypatch.setenv("VLLM_PLUGINS", "inkling_cpu,inkling_kernel")
    assert doctor.check_plugins().state == "ok"


def test_every_stop_and_note_names_a_remedy(monkeypatch: pytest.MonkeyPatch):
    """With nothing installed and nothing there, each check that complains says what to do."""
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    monkeypatch.setattr(doctor.metadata, "entry_points", lambda **_: [])
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    findings = [check() for check in doctor.CHECKS]
    assert {"torch", "vllm", "plugins"} <= {finding.name for finding in findings if finding.state == "stop"}
    assert [finding.name for finding in findings if finding.state != "ok" and not finding.remedy] == []


def test_json_is_one_object_and_nothing_else():
    done = inkling("doctor", "--quick", "--json")
    assert done.stdout.count("\n") == 1
    assert set(json.loads(done.stdout)) == {"ok", "findings"}
