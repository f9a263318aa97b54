"""A run's folder: what was asked for (``run.json``) and one line for every answer (``records.jsonl``).

Every line is on disk before the next question is counted, so a run that is killed loses at most the answers under way. A line that
a kill cut short is dropped when the folder is opened again. Knows no engine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import EvalRunError
from .scoring import Rate

SETTINGS, RECORDS = "run.json", "records.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One answered case.

    Attributes
    ----------
    ended : bool
        The model ended its turn itself.
    wanted, answer : str
        What was wanted and what came, tool calls as JSON.
    revision : str or None
        Of the weights that answered; :meth:`RunFolder.add` writes it.
    """

    row: str
    index: int
    right: bool
    ended: bool
    wanted: str
    answer: str
    reasoning: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0
    first_token_s: float = 0.0
    total_s: float = 0.0
    revision: str | None = None


@dataclass(slots=True)
class RunFolder:
    """A run on disk; made by :meth:`open`."""

    path: Path
    settings: dict[str, Any]
    records: dict[tuple[str, int], Record] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, settings: dict[str, Any], *, fresh: bool = False) -> RunFolder:
        """Start a run in `path`, or go on with the one there.

        Parameters
        ----------
        settings : dict
            What makes answers comparable: suite, seed, wordings, the engine's model and revision.
        fresh : bool
            Forget the run that is there.

        Raises
        ------
        EvalRunError
            The folder cannot be written, or holds a run with other settings or an answer of another revision.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            if fresh:
                (path / RECORDS).unlink(missing_ok=True)
                (path / SETTINGS).unlink(missing_ok=True)
            found = _settings(path)
            if found is None:
                partial = path / f"{SETTINGS}.partial"
                partial.write_text(json.dumps(settings, indent=1), "utf-8")
                os.replace(partial, path / SETTINGS)
            elif different := [f"{k} {found.get(k)!r}, not {v!r}" for k, v in settings.items() if found.get(k) != v]:
                raise EvalRunError(
                    f"{path} holds a run of another kind ({'; '.join(different)}): name another folder with --out, "
                    "or start over with --fresh", path=str(path),
                )  # fmt: skip
            records = dict(_records(path))
            revision = settings.get("revision")
            if other := next((record for record in records.values() if record.revision != revision), None):
                raise EvalRunError(
                    f"{path / RECORDS} holds an answer of revision {other.revision} ({other.row}, case {other.index}), not of "
                    f"{revision}: name another folder with --out, or start over with --fresh", path=str(path),
                )  # fmt: skip
            return cls(path, settings, records)
        except OSError as problem:
            raise EvalRunError(f"the run's folder {path} cannot be used: {problem}", path=str(path)) from problem

    def add(self, record: Record) -> None:
        """Keep one answer, with the revision that gave it; on disk when this returns."""
        record = replace(record, revision=self.settings.get("revision"))
        line = json.dumps(asdict(record), ensure_ascii=False) + "\n"
        with (self.path / RECORDS).open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.records[record.row, record.index] = record

    def has(self, row: str, index: int) -> bool:
        """Whether this case was answered."""
        return (row, index) in self.records

    def rate(self, row: str, cases: int) -> Rate:
        """How many of a row's first `cases` cases were right, of those answered."""
        found = self.of(row, cases)
        return Rate(sum(record.right for record in found), len(found))

    def of(self, row: str, cases: int) -> list[Record]:
        """A row's answers among its first `cases` cases, in order."""
        return [self.records[row, i] for i in range(cases) if (row, i) in self.records]


def _settings(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads((path / SETTINGS).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as problem:
        raise EvalRunError(
            f"{path / SETTINGS} is no run's settings ({problem}): start over with --fresh", path=str(path)
        ) from problem


def _records(path: Path) -> Iterator[tuple[tuple[str, int], Record]]:
    file = path / RECORDS
    if not file.exists():
        return
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(file, len(whole))
    for number, line in enumerate(whole.decode("utf-8").splitlines(), 1):
        try:
            record = Record(**json.loads(line))
        except (ValueError, TypeError) as problem:
            raise EvalRunError(
                f"{file}, line {number} is no record ({problem}): start over with --fresh", path=str(path)
            ) from problem
        yield (record.row, record.index), record
