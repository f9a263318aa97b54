"""Captures as values and as files."""

import json

import numpy as np
import pytest
import zarr

from tests.fabricated_capture import capture, rendered
from workbench import Capture
from workbench.capture_files import span_from_json, span_to_json
from workbench.errors import CaptureFileError, SelectionError


def test_routing_has_the_named_dimensions_and_coordinates():
    cap = capture()
    assert dict(cap.routing.sizes) == {"t": len(cap), "l": 5, "k": 2, "s": 2}
    assert cap.routing["l"].values.tolist() == [1, 2, 3, 4, 5]
    assert cap.routing["expert"].dims == ("t", "l", "k")
    assert cap.routing["expert"].dtype == np.uint16
    assert cap.routing["sink"].dims == ("t", "l", "s")
    assert cap.routing.attrs["experts"] == 16


def test_what_was_not_recorded_says_so():
    with pytest.raises(SelectionError, match=r"no sconv.*recorded routing"):
        _ = capture().sconv


def test_a_capture_round_trips_through_a_file(tmp_path):
    cap = capture()
    cap.save(tmp_path / "run.zarr")
    again = Capture.load(tmp_path / "run.zarr")
    assert again.routing.identical(cap.routing)
    assert again.spans == cap.spans
    assert np.array_equal(again.token_ids, cap.token_ids)
    assert again.provenance == cap.provenance
    assert again.rendered.id == cap.rendered.id
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


def test_blobs_travel_with_the_file(tmp_path):
    cap = capture()
    cap.rendered.blobs["sha256:" + "1" * 64] = b"picture"
    again = Capture.load(cap.save(tmp_path / "run.zarr"))
    assert again.rendered.blobs == {"sha256:" + "1" * 64: b"picture"}


def test_saving_replaces_a_capture_and_nothing_else(tmp_path):
    cap, longer = capture(), capture(rendered(repeat=3))
    cap.save(tmp_path / "run.zarr")
    longer.save(tmp_path / "run.zarr")
    assert len(Capture.load(tmp_path / "run.zarr")) == len(longer)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("keep")
    with pytest.raises(CaptureFileError, match="not a saved capture"):
        cap.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "note.txt").read_text() == "keep"
    with pytest.raises(CaptureFileError, match="no folder"):
        cap.save(tmp_path / "nowhere" / "run.zarr")


@pytest.mark.parametrize("fault", ["absent", "text file", "empty folder", "newer", "no arrays"])
def test_what_is_no_capture_is_refused_by_name(tmp_path, fault):
    path = tmp_path / "run.zarr"
    if fault == "text file":
        path.write_text("hello")
    elif fault == "empty folder":
        path.mkdir()
    elif fault != "absent":
        capture().save(path)
        root = zarr.open_group(path, mode="a")
        if fault == "newer":
            root.attrs["inkling_capture"] = {**root.attrs["inkling_capture"], "version": 99}
        else:
            del root["routing"]
    words = {"absent": "no capture at", "newer": "version 99", "no arrays": "damaged"}
    with pytest.raises(CaptureFileError, match=words.get(fault, "not a saved capture")):
        Capture.load(path)


def test_another_context_or_layout_is_refused():
    cap = capture()
    with pytest.raises(CaptureFileError, match="not the same run"):
        Capture.from_folder_reader(cap.manifest, lambda *_: np.empty(0), rendered(repeat=2))
    with pytest.raises(CaptureFileError, match="layout 99"):
        Capture.from_folder_reader(cap.manifest.model_copy(update={"layout": 99}), lambda *_: np.empty(0), cap.rendered)


def test_spans_survive_json():
    for span in rendered().spans:
        assert span_from_json(json.loads(json.dumps(span_to_json(span)))) == span


def test_reprs_name_what_matters():
    partial = capture(missing=slice(10, 20))
    assert "PARTIAL" in repr(partial)
    assert "routing (5 l × 2 k × 2 s)" in repr(partial)
    assert "partial" in partial._repr_html_()
    assert "\n" not in repr(partial)


def test_the_overview_is_saved_and_opens_as_it_was_without_a_walk(tmp_path, monkeypatch):
    from workbench import routing_windows
    from workbench.routing_windows import RoutingWindows

    cap = capture(rendered(repeat=40), missing=slice(5, 9))
    made = RoutingWindows.of(cap)
    again = Capture.load(cap.save(tmp_path / "run.zarr"))
    monkeypatch.setattr(routing_windows.RoutingWindows, "_pass", lambda self: pytest.fail("walked again"))
    opened = RoutingWindows.of(again)
    assert opened.limits == made.limits
    for metric in ("entropy", "sink"):
        for stat in ("mean", "max"):
            one, other = (windows.strip(metric, 0, len(cap), 100, stat=stat) for windows in (opened, made))
            np.testing.assert_array_equal(one.values, other.values)
            assert (one.start, one.width_tokens) == (other.start, other.width_tokens)
    assert opened.load().identical(made.load())
    one, other = (windows.strip("expert", 3, 90, 40, layer=2, expert=5).values for windows in (opened, made))
    np.testing.assert_array_equal(one, other)
