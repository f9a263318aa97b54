"""The module inliner, and the routing map's page-side arithmetic against Python's."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.fabricated_capture import capture
from workbench.esm import EsmError, inline, widget_folder
from workbench.routing_views import answer, static_arrays, traits


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text)
    return folder / "entry.js"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_inlined_modules_run_as_one(tmp_path):
    entry = write(
        tmp_path,
        a='export const one = 1;\nexport function two() {\n  return one + 1;\n}\n',
        b='import { one, two as second } from "./a.js";\nexport const three = one + second();\n',
        entry='import { three } from "./b.js";\nimport { one } from "./a.js";\n'
        "console.log(three * 10 + one);\nexport default {};\n",
    )  # fmt: skip
    bundle = tmp_path / "bundle.mjs"
    bundle.write_text(inline(entry))
    assert subprocess.run(["node", bundle], capture_output=True, text=True, check=True).stdout.strip() == "31"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('import x from "./a.js";', "cannot inline"),
        ('import { x } from "npm";', "cannot inline"),
        ('import { x } from "./gone.js";', "no module gone.js"),
        ('import { x } from "./entry.js";', "import each other"),
    ],
)
def test_what_cannot_be_inlined_is_refused(tmp_path, text, words):
    with pytest.raises(EsmError, match=words):
        inline(write(tmp_path, entry=text + "\n"))


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_the_page_computes_what_python_computes(tmp_path):
    cap = capture(missing=slice(30, 40))
    arrays = static_arrays(cap)
    assert arrays is not None
    questions = [
        ("strip", {"metric": metric, "stat": stat, "start": 3, "stop": 101, "buckets": buckets, "layer": 2, "expert": 5})
        for metric in ("entropy", "sink", "expert") for stat in ("mean", "max") for buckets in (10, 200)
    ] + [("range", {"start": 5, "stop": 77}), ("token", {"t": 12})]  # fmt: skip
    data = {
        "meta": traits(cap)["meta"], "questions": questions, "texts": arrays["texts"],
        "expert": np.frombuffer(arrays["expert"], "u1").tolist(),
        "share": np.frombuffer(arrays["share"], "<u2").tolist(), "sink": np.frombuffer(arrays["sink"], "<u2").tolist(),
    }  # fmt: skip
    (tmp_path / "data.json").write_text(json.dumps(data))
    script = tmp_path / "script.mjs"
    script.write_text(
        inline(widget_folder("routing_map") / "static_answers.js")
        + 'import { readFileSync } from "node:fs";\nconst d = JSON.parse(readFileSync(process.argv[2], "utf8"));\n'
        "const ask = answers(d.meta, { expert: Uint16Array.from(d.expert), share: Uint16Array.from(d.share), "
        "sink: Uint16Array.from(d.sink), texts: d.texts });\n"
        "console.log(JSON.stringify(d.questions.map(([v, a]) => { const r = ask(v, a); "
        "return { result: r.result, buffers: r.buffers.map((b) => [...b]) }; })));\n"
    )
    out = subprocess.run(["node", script, tmp_path / "data.json"], capture_output=True, text=True, check=True).stdout
    for (verb, args), found in zip(questions, json.loads(out), strict=True):
        reply, buffers = answer(cap, {"id": 1, "verb": verb, "args": args})
        assert reply["ok"]
        for key in ("start", "width", "buckets", "rows", "t", "stop"):
            assert found["result"].get(key) == reply["result"].get(key)
        mine = [np.frombuffer(bytes(b), np.uint8) for b in found["buffers"]]
        if verb == "strip":
            # The page has shares rounded to 1/65535: up to one of 254 steps of the colour scale, entropy's narrow scale up to two.
            theirs = np.frombuffer(buffers[0], np.uint8)
            assert np.array_equal(mine[0] == 255, theirs == 255)
            assert np.abs(mine[0].astype(int) - theirs).max() <= 2
        elif verb == "range":
            for one, other in zip(mine, buffers, strict=True):
                np.testing.assert_allclose(one.view("<f4"), np.frombuffer(other, "<f4"), atol=1e-5)
        else:
            assert np.array_equal(mine[0].view("<u2"), np.frombuffer(buffers[0], "<u2"))


@pytest.mark.parametrize(
    "request_",
    [
        None, {}, {"id": 3, "verb": "drop"}, {"id": 3, "verb": "token", "args": {"t": 10**9}},
        {"id": 3, "verb": "strip", "args": {"x": 1}},
    ],
)  # fmt: skip
def test_a_wrong_request_is_answered_never_raised(request_):
    reply, buffers = answer(capture(), request_)
    assert reply["ok"] is False
    assert reply["error"]["message"]
    assert buffers == []
