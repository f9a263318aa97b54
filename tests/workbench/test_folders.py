"""Folders and zip archives: what is read, what is left out and why; fragments."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.workbench.samples_of import noise_image, pdf, recording, tone
from workbench import Context, fragments
from workbench.errors import FragmentError, ReadingCancelled, SourceError, SourceMissing
from workbench.readers import read_folder


def project(root: Path) -> Path:
    """A small project of every kind of file."""
    files = {
        "README.md": "# Boats\n", "src/main.py": "print('boat')\n", "src/deep/data.csv": "boat,euros\nyacht,35\n",
        "src/debug.log": "noise", "src/keep.log": "kept", "build/out.txt": "made", "notes.txt": "", ".env": "SECRET=1",
        ".gitignore": "*.log\nbuild/\n", "src/.gitignore": "!keep.log\n",
    }  # fmt: skip
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "src/tool.bin").write_bytes(bytes(range(256)))
    (root / "film.mp4").write_bytes(b"\0\0\0 ftypmp42")
    (root / "inner.zip").write_bytes(b"PK\5\6" + bytes(18))
    noise_image(40, 40).save(root / "src/photo.png")
    recording(root / "call.wav", tone(0.2))
    pdf(root / "paper.pdf", ["One page."])
    return root


LEFT_OUT = {
    ".env": "hidden", "build/": "ignored by .gitignore", "film.mp4": "no engine takes video", "inner.zip": "an archive",
    "notes.txt": "empty", "src/debug.log": "ignored by .gitignore", "src/tool.bin": "binary",
}  # fmt: skip
READ = ["README.md", "call.wav", "paper.pdf", "src/deep/data.csv", "src/keep.log", "src/main.py", "src/photo.png"]


def check(found, root: str) -> None:
    assert sorted(part.name for part in found.parts) == [f"{root}/{name}" for name in READ]
    skipped = {item.path: item.reason for item in found.skipped}
    assert set(skipped) == set(LEFT_OUT)
    for path, reason in LEFT_OUT.items():
        assert reason in skipped[path]


def test_a_folder_is_read_as_git_sees_it(tmp_path: Path) -> None:
    root = project(tmp_path / "boats")
    found = read_folder(root)
    check(found, "boats")
    assert "7 files read, 7 left out" in str(found)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    ).stdout.split()
    unread = {"film.mp4", "inner.zip", "notes.txt", "src/tool.bin", ".env", ".gitignore", "src/.gitignore"}
    assert sorted(set(listed) - unread) == sorted(READ)
    # The .git folder itself is never read.
    check(read_folder(root), "boats")


def test_a_zip_archive_gives_the_same(tmp_path: Path) -> None:
    root = project(tmp_path / "boats")
    with zipfile.ZipFile(tmp_path / "boats.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(root))
    found = read_folder(tmp_path / "boats.zip")
    check(found, "boats")
    assert [part.id for part in found.parts] == [part.id for part in read_folder(root).parts]


def test_links_devices_and_unreadable_files_are_listed(tmp_path: Path) -> None:
    root = tmp_path / "links"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("kept")
    (tmp_path / "outside.txt").write_text("secret")
    (root / "in.txt").symlink_to("a.txt")
    (root / "out.txt").symlink_to(tmp_path / "outside.txt")
    (root / "dead.txt").symlink_to("nothing")
    (root / "sub/round").symlink_to(root)
    os.mkfifo(root / "pipe")
    (root / "latin.txt").write_bytes("café".encode("latin-1"))
    found = read_folder(root)
    assert [part.name for part in found.parts] == ["links/a.txt", "links/in.txt"]
    reasons = {item.path: item.reason for item in found.skipped}
    assert set(reasons) == {"out.txt", "dead.txt", "sub/round", "pipe", "latin.txt"}
    assert "out of the folder" in reasons["out.txt"]
    assert "link to a folder" in reasons["sub/round"]
    assert "not UTF-8" in reasons["latin.txt"]


def test_patterns_choose_and_progress_cancels(tmp_path: Path) -> None:
    root = project(tmp_path / "boats")
    assert [part.name for part in read_folder(root, only=("*.py", "*.csv")).parts] == [
        "boats/src/deep/data.csv",
        "boats/src/main.py",
    ]
    found = read_folder(root, only=("*.py", "*.md"), skip=("src/",))
    assert [part.name for part in found.parts] == ["boats/README.md"]
    assert ("src/", "left out, as asked") in [(item.path, item.reason) for item in found.skipped]
    assert "boats/.env" in [part.name for part in read_folder(root, hidden=True).parts]
    seen: list[tuple[str, int, int]] = []
    context = Context()
    with pytest.raises(ReadingCancelled, match="nothing was added"):
        context.add_folder(root, progress=lambda what, done, total: seen.append((what, done, total)) or done < 2)
    assert context.items == ()
    assert [done for _, done, _ in seen] == [0, 1, 2]


def test_a_folder_is_one_change_and_a_branch_of_the_budget(tmp_path: Path) -> None:
    context = Context()
    context.ask("What is this?")
    gathered = context.add_folder(project(tmp_path / "boats"))
    assert len(context.items) == 8
    tree = context.budget().tree
    folder = next(branch for branch in tree.children if branch.kind == "folder")
    assert folder.label == "boats"
    assert {branch.label for branch in folder.children} == {"README.md", "call.wav", "paper.pdf", "src"}
    assert sum(branch.tokens for branch in tree.children) == tree.tokens
    assert tree.tokens + context.budget().framing_tokens + context.budget().effort_tokens == context.budget().prompt_tokens
    context.undo()
    assert len(context.items) == 1
    assert gathered.parts


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [("none", SourceMissing, "no such folder"), ("file.txt", SourceError, "neither a folder nor a zip"),
     ("empty", SourceError, "it is empty"), ("binary", SourceError, "nothing in it that can be read .*tool.bin: ")],
)  # fmt: skip
def test_bad_folders(name: str, error: type, says: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary/tool.bin").write_bytes(b"\0\1\2")
    (tmp_path / "file.txt").write_text("x")
    context = Context()
    with pytest.raises(error, match=says):
        context.add_folder(tmp_path / name)
    assert context.items == ()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.txt", " " * 2_000_000)
    monkeypatch.setattr("workbench.readers.folders.ARCHIVE_BYTES", 1_000_000)
    with pytest.raises(SourceError, match="2,000,000 bytes unpacked"):
        read_folder(tmp_path / "bomb.zip")


def test_fragments_are_kept_by_hash_and_found_by_its_beginning(tmp_path: Path) -> None:
    context = Context()
    part = context.add_image(noise_image(45, 45), name="chart")
    kept = fragments.keep(part)
    assert fragments.keep(part) == kept == part.id
    assert [item.name for item in fragments.listed() if item.id == kept] == ["chart"]
    other = Context()
    other.add_fragment(kept[:20])
    assert other.parts == (part,)
    with pytest.raises(FragmentError, match="no fragment of this hash"):
        other.add_fragment("sha256:" + "0" * 64)
    with pytest.raises(FragmentError):
        other.add_fragment("../*")
    fragments.forget(kept)
    assert kept not in [item.id for item in fragments.listed()]
