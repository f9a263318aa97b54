"""The arithmetic of benches: turns, paired ratios, intervals, refusals. No timing is asserted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from workbench.benchmarks import BENCHES, load
from workbench.benchmarks.bench import Bench, Record
from workbench.benchmarks.markdown import page
from workbench.benchmarks.measuring import Series, alternate, median_interval, ratio
from workbench.cli import main
from workbench.errors import BenchError


def told(values: list[float]) -> Iterator[float]:
    """A side that says what it took."""
    return iter(values)


def quick() -> Record:
    """The smallest record there is."""
    bench = Bench("sample", rounds=3, quick=True)
    bench.value("a", 1, unit="bytes")
    return bench.record()


def test_sides_run_in_turns_and_each_round_begins_with_another() -> None:
    order: list[str] = []
    sides = {name: lambda name=name: order.append(name) for name in "abc"}
    took = alternate(sides, rounds=3, warmup=1)
    assert "".join(order) == "abcbcacababc"
    assert {len(series.runs_s) for series in took.values()} == {3}
    turns = sorted(turn for series in took.values() for turn in series.turns)
    assert turns == list(range(turns[0], turns[0] + 9))


def test_a_side_that_times_itself_is_taken_at_its_word_and_the_warm_up_is_dropped() -> None:
    values = told([99.0, 1.0, 3.0, 2.0])
    series = alternate({"a": lambda: next(values)}, rounds=3)["a"]
    assert series.runs_s == (1.0, 3.0, 2.0)
    assert (series.min_s, series.median_s, series.max_s) == (1.0, 2.0, 3.0)


def test_a_ratio_is_the_median_of_the_rounds_not_the_ratio_of_medians() -> None:
    # The machine was three times slower in the second round: both sides felt it.
    slow, fast = told([2.0, 6.0, 2.2, 2.0, 30.0]), told([1.0, 3.0, 1.0, 1.0, 10.0])
    took = alternate({"slow": lambda: next(slow), "fast": lambda: next(fast)}, rounds=5, warmup=0)
    found = ratio(took["slow"], took["fast"])
    assert found.median == pytest.approx(2.0)
    assert (found.smallest, found.largest, found.pairs) == (pytest.approx(2.0), pytest.approx(3.0), 5)
    assert found.low <= found.median <= found.high


def test_three_sides_in_one_run_give_any_ratio() -> None:
    took = alternate({"a": lambda: 1.0, "b": lambda: 2.0, "c": lambda: 4.0}, rounds=4)
    assert ratio(took["c"], took["a"]).median == 4
    assert ratio(took["b"], took["c"]).median == 0.5


@pytest.mark.parametrize(
    ("over", "under", "why"),
    [
        (Series("a", (1, 1, 1), (0, 1, 2)), Series("b", (1, 1, 1), (3, 4, 5)), "did not alternate"),
        (Series("a", (1, 1, 1), (0, 1, 4)), Series("b", (1, 1, 1), (2, 3, 5)), "did not alternate"),
        (Series("a", (1, 1), (0, 2)), Series("b", (1, 1), (1, 3)), "3 or more"),
        (Series("a", (1, 1, 1, 1), (0, 2, 4, 6)), Series("b", (1, 1, 1), (1, 3, 5)), "equally many"),
    ],
)
def test_runs_that_did_not_alternate_give_no_ratio(over: Series, under: Series, why: str) -> None:
    with pytest.raises(BenchError, match=why):
        ratio(over, under)


def test_two_measurements_apart_give_no_ratio() -> None:
    bench = Bench("x")
    one, other = bench.measure("a", lambda: 1.0), bench.measure("b", lambda: 1.0)
    with pytest.raises(BenchError, match="did not alternate"):
        bench.ratio("a over b", one, other)


def test_the_interval_agrees_with_scipys() -> None:
    values = np.random.default_rng(1).lognormal(0.3, 0.2, 31)
    ours = median_interval(values, seed=3)
    theirs = stats.bootstrap((values,), np.median, method="percentile", n_resamples=10_000, rng=np.random.default_rng(4))
    # Two draws of 10,000 resamples; the medians are order statistics about 0.02 apart here.
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.03)
    assert median_interval(values, seed=3) == ours


def test_an_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(0)
    hits = sum(low <= 1.0 <= high for low, high in (median_interval(draw.lognormal(0, 0.5, 15), seed=n) for n in range(300)))
    # 95 % asked of 300: the percentile bootstrap of 15 values covers 93 to 97 %; three standard errors are 4 %.
    assert 0.89 <= hits / 300 <= 0.995


def test_a_record_says_what_it_ran_on_and_holds_every_run(tmp_path: Path) -> None:
    bench = Bench("sample", rounds=3, seed=5, options={"size": 4})
    took = bench.alternate({"ours": lambda: 2.0, "theirs": lambda: 1.0})
    bench.rate("reading", took["ours"], amount=10, unit="pages", at_least=4)
    bench.time("theirs", took["theirs"], at_most_s=0.5)
    bench.ratio("ours over theirs", took["ours"], took["theirs"], at_most=3)
    bench.value("peak memory", 1 << 20, unit="bytes", note="of the process")
    bench.remark("On a loaded machine.")
    data, text = bench.record().write(tmp_path / "new")
    record = json.loads(data.read_text())
    assert (record["seed"], record["rounds"], record["options"]) == (5, 3, {"size": 4})
    assert record["machine"]["cores"] >= 1
    assert {"numpy", "inkling-workbench"} <= set(record["versions"])
    assert [row["met"] for row in record["rows"]] == [True, False, True, None]
    assert record["rows"][0]["median"] == 5.0
    assert record["rows"][0]["runs"] == [2.0, 2.0, 2.0]
    shown = text.read_text()
    assert "| ours over theirs | ours / theirs | 2 | 2 to 2 | 2 | 2 | ≤ 3 | met |" in shown
    assert "**not met**" in shown
    assert "On a loaded machine." in shown
    assert "not for quoting" not in shown
    assert "not for quoting" in page(quick())


def test_a_bench_that_measured_nothing_or_cannot_write_says_so(tmp_path: Path) -> None:
    bench = Bench("empty")
    with pytest.raises(BenchError, match="measured nothing"):
        bench.record()
    with pytest.raises(BenchError, match="3 or more"):
        Bench("short", rounds=2)
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="--out"):
        quick().write(tmp_path / "file" / "below")


def test_the_benches_have_what_the_command_needs() -> None:
    for name in BENCHES:
        module = load(name)
        assert module.SUMMARY
        assert callable(module.configure)
        assert callable(module.run)
    with pytest.raises(BenchError, match="no bench is called 'fast'"):
        load("fast")


def test_the_command_lists_runs_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(bench: Bench, args) -> None:
        took = bench.alternate({"a": lambda: 2.0, "b": lambda: 1.0})
        bench.ratio("a over b", took["a"], took["b"], at_most=args.most)

    def configure(parser) -> None:
        parser.add_argument("--most", type=float, default=3.0)

    assert main(["bench"]) == 0
    assert "compose" in capsys.readouterr().out
    tiny = SimpleNamespace(SUMMARY="tiny", configure=configure, run=run)
    monkeypatch.setattr("workbench.cli.bench.load", lambda name: tiny)
    assert main(["bench", "compose", "--quick", "--rounds", "3", "--most", "1", "--json", "--out", str(tmp_path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["quick"]
    assert record["options"] == {"most": 1.0}
    assert [(row["median"], row["met"]) for row in record["rows"]] == [(2.0, False)]
    assert {path.name for path in tmp_path.iterdir()} == {"compose.json", "compose.md"}
    assert main(["bench", "compose", "--rounds", "1"]) == 1
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "nothing"])


def test_a_quick_bench_of_captures_runs_and_says_what_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["bench", "capture", "--no-engine", "--quick", "--rounds", "3", "--million", "900000", "--json", "--out", str(tmp_path)]
    assert main(given) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["options"]["million"] == 65_536
    assert any(row["name"].startswith("overview of 65,536 tokens") for row in record["rows"])


@pytest.mark.slow
def test_the_bench_of_composing_runs_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "compose", "--quick", "--rounds", "3", "--json", "--out", str(tmp_path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["options"]["pages"] == 6
    rows = {row["name"]: row for row in record["rows"]}
    assert rows["memory at the peak of composing it"]["median"] > 0
    assert {"PDF to parts", "images to parts", "audio to parts", "a million mixed tokens, cold", "loading it"} <= set(rows)
