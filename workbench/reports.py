"""Reports: one HTML file with the question, the answer, what was composed, what it cost, and the routing.

Self-contained: no network, opens from ``file://``, prints, dark where the reader's system is. The routing map runs in the page from
the same ES module as in notebooks, over embedded arrays; beneath it lies the static figure. Sources are media thumbnails and
excerpts, never whole documents. This module draws nothing itself (``workbench.figures``, ``widgets/routing_map``).
"""

from __future__ import annotations

import base64
import html
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.protocol import Rendered, Reply

from .errors import ReportError
from .report_parts import parts_html, question_of

if TYPE_CHECKING:
    from .budgets import Budget
    from .captures import Capture
    from .contexts import Context
    from .results import Result


def write_report(
    path: str | os.PathLike[str], *, context: Context | None = None, rendered: Rendered | None = None, budget: Budget | None = None,
    reply: Reply | None = None, capture: Capture | None = None, analyses: Sequence[Result] = (),
) -> Path:  # fmt: skip
    """Write a self-contained HTML report.

    Parameters
    ----------
    path : path
        The file to write; replaced whole or not at all.
    context, rendered, budget, reply, capture
        What there is to show; a part that is missing leaves its section out. `rendered` is taken from `capture`, or rendered from
        `context`, where it is not given.
    analyses : sequence of Result
        Figures to show with their notes: ``cap.routing_by("part")``, ``attribute(reply)``, ``compare(…).scores``, …

    Returns
    -------
    Path

    Raises
    ------
    ReportError
        Nothing to report on, or the file cannot be written.
    """
    if rendered is None:
        rendered = capture.rendered if capture is not None else context.render() if context is not None else None
    if rendered is None:
        raise ReportError("nothing to report on: give a context, a rendered context or a capture")
    text = report_html(rendered=rendered, budget=budget, reply=reply, capture=capture, analyses=analyses)
    target = Path(path)
    try:
        with tempfile.NamedTemporaryFile("w", dir=target.parent, prefix=f".{target.name}.", delete=False, encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, target)
    except OSError as problem:
        raise ReportError(f"cannot write {target}: {problem.strerror or problem}", path=str(target)) from problem
    return target


def report_html(
    *, rendered: Rendered, budget: Budget | None = None, reply: Reply | None = None, capture: Capture | None = None,
    analyses: Sequence[Result] = (),
) -> str:  # fmt: skip
    """The report as HTML text (see :func:`write_report`)."""
    question = question_of(rendered)
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    sections = [_head(question, rendered, reply, capture)]
    sections.append(f"<h2>What was composed</h2>{parts_html(rendered)}")
    if budget is not None:
        sections.append(f"<h2>What it costs</h2>{_budget(budget, reply)}")
    if capture is not None and "routing" in capture.seams and capture.routing.sizes["t"] == len(capture):
        sections.append(f"<h2>Which experts it used</h2>{_routing(capture)}")
        style += _widget_css()
    if analyses:
        sections.append(f"<h2>What was found</h2>{''.join(_analysis(result) for result in analyses)}")
    provenance = _provenance(rendered, reply, capture)
    sections.append(f"<h2>How it came about</h2>{_table(provenance)}")
    title = html.escape(question[:80] or "Inkling report")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body><main>{''.join(sections)}</main></body></html>\n"
    )


def _head(question: str, rendered: Rendered, reply: Reply | None, capture: Capture | None) -> str:
    from .routing_views import notices

    parts = [f"<h1>{html.escape(question or 'A composed context')}</h1>"]
    model = (reply.provenance if reply else capture.provenance if capture else {}).get("model")
    facts = [f"{len(rendered):,} tokens", str(model) if model else ""]
    if reply is not None:
        use = reply.usage
        facts += [
            f"{use.cached_tokens:,} of them cached" if use.cached_tokens else "",
            f"{use.completion_tokens:,} answered",
            f"first token after {reply.timings.first_token_s:.1f} s",
            {"stop": "", "length": "cut at max_tokens", "abort": "stopped by hand"}[reply.finish_reason],
        ]
    parts.append(f'<p class="small">{html.escape(" · ".join(fact for fact in facts if fact))}</p>')
    if reply is not None:
        parts.append(f'<p class="answer">{html.escape(reply.text.strip())}</p>')
        if reply.reasoning:
            parts.append(f"<details><summary>Thinking</summary><p>{html.escape(reply.reasoning)}</p></details>")
    said = list(reply.notices) if reply else []
    said += [text for text in (notices(capture) if capture else []) if not (said and "random" in text)]
    return "".join([*parts, *(f'<p class="notice">{html.escape(text)}</p>' for text in said)])


def _budget(budget: Budget, reply: Reply | None) -> str:
    rows = [(row.label, row.modality, row.detail, row.tokens) for row in budget.rows]
    rows += [
        (label, "", "", tokens)
        for label, tokens in (("Effort", budget.effort_tokens), ("Tools", budget.tools_tokens), ("Framing", budget.framing_tokens))
        if tokens
    ]
    rows.append(("Reserved for the answer", "", "", budget.reserved_tokens))
    total = budget.prompt_tokens + budget.reserved_tokens
    body = "".join(
        f'<tr><th scope="row">{html.escape(a)}</th><td>{html.escape(b)}</td><td>{html.escape(c)}</td><td class="n">{n:,}</td></tr>'
        for a, b, c, n in rows
    )
    engine = f" The engine counted {reply.usage.prompt_tokens:,} prompt tokens." if reply else ""
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Part", "Kind", "Size")) + '<th scope="col" class="n">Tokens</th>'
    foot = f'<th scope="row" colspan="3">Prompt and answer, of {budget.limit_tokens:,}</th><td class="n">{total:,}</td>'
    return (
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody><tfoot><tr>{foot}</tr></tfoot></table>"
        f'<p class="small">Prompt: {budget.prompt_tokens:,} tokens, exact.{engine}</p>'
        + "".join(f'<p class="notice">{html.escape(note)}</p>' for note in budget.notes)
    )


def _routing(capture: Capture) -> str:
    """The live map, and beneath it the static figure."""
    from .esm import inline, widget_folder
    from .figures import png
    from .figures.routing import routing_map
    from .routing_views import static_arrays, traits

    state = traits(capture, parts=True)
    packed = {name: base64.b64encode(value).decode() for name, value in state.items() if isinstance(value, bytes)}
    arrays = static_arrays(capture)
    if arrays is not None:
        arrays = {key: base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in arrays.items()}
    plain = {name: value for name, value in state.items() if not isinstance(value, bytes)}
    plain["meta"] = {**plain["meta"], "notices": []}  # the report's head says them
    data = _script_json({"traits": plain, "bytes": packed, "arrays": arrays})
    module = inline(widget_folder("routing_map") / "standalone.js").replace("</script", "<\\/script")
    picture = base64.b64encode(png(routing_map(capture), dpi=130)).decode()
    exact = "every token is in this file" if arrays else "this file holds the overview; the saved capture holds every token"
    return (
        f'<div id="routing" class="live"></div><script type="application/json" id="routing-data">{data}</script>'
        f'<script type="module">{module}\nmount(document.getElementById("routing"), '
        f'JSON.parse(document.getElementById("routing-data").textContent));</script>'
        f'<details class="twin"><summary>Static picture ({exact})</summary><img alt="Expert routing: {html.escape(repr(capture))}" '
        f'src="data:image/png;base64,{picture}"></details>'
        '<noscript><p class="small">The map above needs scripts; the static picture does not: open it here.</p></noscript>'
    )


def _analysis(result: Result) -> str:
    """The figure of a result; its notes are in the picture, and beside it as text."""
    from .figures import png

    picture = base64.b64encode(png(result.plot(), dpi=120)).decode()
    title, notes = html.escape(result.title), html.escape(" ".join(result.notes))
    image = f'<img alt="{title}" src="data:image/png;base64,{picture}">'
    return f'<figure class="twin">{image}<figcaption>{notes}</figcaption></figure>'


def _widget_css() -> str:
    from .esm import style

    return style("routing_map")


def _provenance(rendered: Rendered, reply: Reply | None, capture: Capture | None) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("Context", rendered.id), ("Image rule", rendered.image_rule.id)]
    rows += [(f"{item.kind.capitalize()} at token {item.start:,}", item.blob) for item in rendered.media[:40]]
    merged: dict[str, Any] = {**(capture.provenance if capture else {}), **(reply.provenance if reply else {})}
    for key, value in merged.items():
        if isinstance(value, dict):
            rows += [(f"{key}: {name}", inner) for name, inner in value.items()]
        else:
            rows.append((key, value))
    if capture is not None:
        rows.append(
            ("Capture", f"{capture.manifest.id}, {capture.manifest.covered_tokens:,} of {len(capture):,} tokens written once")
        )
    return [(key.replace("_", " "), value) for key, value in rows if value not in (None, "", [], {})]


def _table(rows: list[tuple[str, Any]]) -> str:
    def shown(value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | dict | bool) else str(value)
        return html.escape(text if len(text) <= 300 else text[:297] + "…")

    body = "".join(f'<tr><th scope="row">{html.escape(key)}</th><td>{shown(value)}</td></tr>' for key, value in rows)
    return f"<table><tbody>{body}</tbody></table>"


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element it lies in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
