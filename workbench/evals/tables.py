"""A run as a table: for the terminal, as Markdown, and as JSON. Rates with their 95 % interval beside the bar each is held to.

Formats only. A bar is met when the measured share reaches it; the interval says how sure that is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..errors import EvalRunError
from ..markdown_tables import markdown_table
from .records import RunFolder
from .suites import Row

HEADS = ("skill", "right of cases", "share", "95 % interval", "bar", "", "median s")


def report(
    rows: Iterable[Row], cases: int | None, folder: RunFolder, *, engine: dict[str, Any], skipped: dict[str, str],
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The run so far as plain values.

    Raises
    ------
    EvalRunError
        The engine is of another revision than the run's answers.
    """
    if (of := folder.settings.get("revision")) != engine.get("revision"):
        raise EvalRunError(
            f"the answers in {folder.path} are of revision {of}, the engine is of {engine.get('revision')}: ask the engine that "
            "gave them, or start over with --fresh", path=str(folder.path),
        )  # fmt: skip
    lines = []
    for row in rows:
        count = row.cases if cases is None else min(cases, row.cases)
        records, rate = folder.of(row.name, count), folder.rate(row.name, count)
        low, high = rate.interval()
        lines.append({
            "skill": row.name, "about": row.about, "right": rate.right, "cases": rate.cases,
            "share": rate.share if rate.cases else None, "low": low, "high": high, "bar": row.bar,
            "met": None if row.bar is None or not rate.cases else rate.share >= row.bar,
            "ended": sum(record.ended for record in records),
            "longest_prompt_tokens": max((record.prompt_tokens for record in records), default=0),
            "median_total_s": median(record.total_s for record in records) if records else None,
            "skipped": skipped.get(row.name),
        })  # fmt: skip
    return {"kind": "inkling-eval", "settings": folder.settings, "engine": engine, "rows": lines, **(extra or {})}


def cells(line: dict[str, Any]) -> list[str]:
    """One row of the table."""
    if not line["cases"]:
        return [line["skill"], "–", "", "", _percent(line["bar"]), line["skipped"] or "not asked", ""]
    met = {None: "", True: "met", False: "**not met**"}[line["met"]]
    return [
        line["skill"], f"{line['right']} of {line['cases']}", _percent(line["share"], 1),
        f"{_percent(line['low'], 1)} to {_percent(line['high'], 1)}", _percent(line["bar"]), met, f"{line['median_total_s']:.2f}",
    ]  # fmt: skip


def _percent(share: float | None, places: int = 0) -> str:
    return "" if share is None else f"{100 * share:.{places}f} %"


def page(found: dict[str, Any], *, title: str) -> str:
    """The report as a page of Markdown."""
    engine, settings = found["engine"], found["settings"]
    lines = [f"# {title}", "", _intro(engine, settings), "", markdown_table([HEADS, *map(cells, found["rows"])]), ""]
    if found.get("note"):
        lines += [found["note"], ""]
    if engine.get("random_weights"):
        lines += ["**This checkpoint has random weights: it was never trained, and its answers are noise.**", ""]
    lines += [f"- {line['skill']}: {line['about']}" for line in found["rows"]]
    if found.get("ablations"):
        lines += ["", "## What the parts are for", "", *_ablations(found["ablations"]), ""]
    if found.get("drafts"):
        lines += ["", "## Draft blocks", "", *_drafts(found["drafts"]), ""]
    return "\n".join([*lines, ""])


def _intro(engine: dict[str, Any], settings: dict[str, Any]) -> str:
    model = f"`{engine['model']}`" + (f", revision `{engine['revision']}`" if engine.get("revision") else "")
    said = f"Greedy answers of {model}, through the running engine; seed {settings['seed']}. "
    if not settings["exact"]:
        return said + "An answer is right when it says the wanted value and ended by itself."
    return said + (
        "Cases are held out: their values, layouts, codes, voices and documents are not in training; questions are asked in "
        f"{settings['wording']} wordings (look-up in those of training, but for the row that says otherwise). An answer is right "
        "when all of it is, word for word, and the model ended its turn itself."
    )


def _ablations(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Skills across, what was taken away down; the trainer's own forward, teacher-forced."""
    skills = list(dict.fromkeys(line["skill"] for line in lines))
    by = {(line["ablation"], line["skill"]): line for line in lines}
    body = []
    for name in dict.fromkeys(line["ablation"] for line in lines):
        shown = [by.get((name, skill)) for skill in skills]
        body.append([name, *(f"{one['right']} of {one['cases']}" if one else "" for one in shown)])
    said = "From the trainer: the same held-out cases with one part switched off. Right of cases."
    return [said, "", markdown_table([["switched off", *skills], *body])]


def _drafts(lines: Sequence[dict[str, Any]]) -> list[str]:
    said = "From the trainer: how often each draft block guesses the token that comes, on held-out answers."
    body = [[one["draft"], f"{one['right']:,} of {one['cases']:,}", _percent(one["right"] / one["cases"], 1)] for one in lines]
    return [said, "", markdown_table([["draft", "right of tokens", "share"], *body])]


def trainers_tables(paths: Iterable[Path]) -> dict[str, Any]:
    """What the trainer prints: ablations (``ablate``), and how often its draft blocks are right, one JSON object a line or a list.

    Raises
    ------
    EvalRunError
        Not there, or of another form.
    """
    found: dict[str, Any] = {"ablations": [], "drafts": []}
    for path in paths:
        try:
            for values in _objects(path.read_text("utf-8")):
                counts = {key: int(values[key]) for key in ("right", "cases")}
                if "off" in values:
                    found["ablations"].append({"ablation": values["off"], "skill": values["skill"]} | counts)
                else:
                    found["drafts"].append({"draft": str(values["skill"])} | counts)
        except (OSError, ValueError, TypeError, KeyError) as problem:
            raise EvalRunError(
                f"{path} is not what the trainer prints ({type(problem).__name__}: {problem}): objects with skill, right "
                "and cases, and off for an ablation", path=str(path),
            ) from problem  # fmt: skip
    return {key: value for key, value in found.items() if value}


def _objects(text: str) -> list[dict[str, Any]]:
    return json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line]


def write(folder: Path, found: dict[str, Any], text: str, *, name: str = "report") -> tuple[Path, Path]:
    """Write JSON and Markdown, each whole or not at all."""
    paths = folder / f"{name}.json", folder / f"{name}.md"
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, (json.dumps(found, indent=1, ensure_ascii=False) + "\n", text), strict=True):
        partial = path.with_name(path.name + ".partial")
        partial.write_text(content, "utf-8")
        os.replace(partial, path)
    return paths
