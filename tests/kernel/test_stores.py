"""Blobs and contexts through their routes, without an engine behind them."""

import hashlib
import io
import os
import types

import numpy as np
import pytest
import soundfile
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image
from tml_renderers import tokenizers

from engine import errors
from engine.kernel.blobs import BlobStore
from engine.kernel.contexts import Bounds, ContextStore
from engine.kernel.media import collapse, media_counter
from engine.kernel.routes import attach
from engine.protocol import FramingIds, ImageRule, Limits, Media, context_id
from engine.protocol.wire import frame_context

TML = tokenizers.O200kBaseChatTokenizer()
NAMES = set(TML.special_tokens())
FRAMING = FramingIds.lookup(lambda spelling: TML.encode_special(name) if (name := spelling.strip("<|>")) in NAMES else None)
RULE = ImageRule()
LIMIT = 1000


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def png(width: int, height: int, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, "PNG")
    return file.getvalue()


def wav(samples: int, rate: int = 16000, channels: int = 1) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros((samples, channels), np.float32), rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


@pytest.fixture
def blobs(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs", limit_bytes=100_000)


@pytest.fixture
def client(tmp_path, blobs: BlobStore) -> TestClient:
    bounds = Bounds(
        limit_tokens=LIMIT, vocabulary=200058, framing=FRAMING, image_rule=RULE, media_tokens=media_counter(blobs, RULE)
    )  # fmt: skip
    app = FastAPI()
    attach(app)
    info = types.SimpleNamespace(limits=Limits(context_tokens=LIMIT))
    app.state.workbench = types.SimpleNamespace(blobs=blobs, contexts=ContextStore(tmp_path / "contexts", bounds), info=info)
    return TestClient(app)


def code(answer) -> str:
    return answer.json()["error"]["code"]


def framed(ids, media=(), rule: ImageRule = RULE, **options) -> bytes:
    ids = np.asarray(ids, dtype=np.uint32)
    return frame_context(context_id(ids, tuple(media), rule), ids, tuple(media), rule, **options)


def with_media(kind: str, blob: str, tokens: int):
    marker = FRAMING.content_image if kind == "image" else FRAMING.content_audio_input
    ids = [FRAMING.message_user, marker, *[FRAMING.slots()[kind]] * tokens, FRAMING.end_message]
    return ids, (Media(kind=kind, blob=blob, start=2, tokens=tokens),)


def test_a_blob_is_kept_once_and_only_under_its_own_hash(client: TestClient, blobs: BlobStore) -> None:
    content = os.urandom(5000)
    name = sha(content)
    assert client.head(f"/workbench/blobs/{name}").status_code == 404
    wrong = client.put(f"/workbench/blobs/{name}", content=content + b"x")
    assert (wrong.status_code, code(wrong)) == (409, "blob-missing")
    assert list(blobs.folder.iterdir()) == []
    assert client.put(f"/workbench/blobs/{name}", content=content).status_code == 201
    assert client.put(f"/workbench/blobs/{name}", content=content).status_code == 200
    assert client.head(f"/workbench/blobs/{name}").status_code == 200
    assert blobs.read(name) == content
    assert blobs.path(name).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_a_blob_over_the_limit_leaves_nothing(client: TestClient, blobs: BlobStore, streamed: bool) -> None:
    content = bytes(100_001)
    sent = (piece for piece in (content[:50_000], content[50_000:])) if streamed else content
    answer = client.put(f"/workbench/blobs/{sha(content)}", content=sent)
    assert (answer.status_code, code(answer)) == (400, "bad-request")
    assert list(blobs.folder.iterdir()) == []


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "sha256:" + "A" * 64, "sha256:12", "md5:" + "0" * 64])
def test_no_other_name_reaches_the_disk(client: TestClient, name: str) -> None:
    assert client.put(f"/workbench/blobs/{name}", content=b"x").status_code in (400, 404)


def test_a_context_is_kept_and_a_longer_one_sends_only_what_is_new(client: TestClient) -> None:
    ids = list(range(100, 150))
    first = client.post("/workbench/contexts", content=framed(ids))
    assert first.status_code == 201
    base = first.json()["context"]
    longer = framed([*ids[:40], 7, 8, 9], base=base, base_tokens=40)
    assert len(longer) < len(framed([*ids[:40], 7, 8, 9]))
    assert client.post("/workbench/contexts", content=longer).json()["tokens"] == 43
    assert client.get(f"/workbench/contexts/{base}").json() == {"context": base, "tokens": 50}
    assert code(client.get(f"/workbench/contexts/sha256:{'0' * 64}")) == "context-unknown"
    unknown = framed([*ids[:40], 7], base=f"sha256:{'0' * 64}", base_tokens=40)
    assert code(client.post("/workbench/contexts", content=unknown)) == "context-unknown"


def test_contexts_survive_their_store(tmp_path, client: TestClient) -> None:
    name = client.post("/workbench/contexts", content=framed(range(9))).json()["context"]
    store = client.app.state.workbench.contexts  # type: ignore[attr-defined]
    assert ContextStore(store.folder, store.bounds).get(name).token_ids.tolist() == list(range(9))


@pytest.mark.parametrize(
    ("frame", "status", "kind"),
    [
        (b"", 400, "bad-request"),
        (b"IWC1", 400, "bad-request"),
        (b"IWC1\xff\xff\xff\xff{}", 400, "bad-request"),
        (b"IWC1\x02\x00\x00\x00{}", 400, "bad-request"),
        (framed([1, 2, 3])[:-1], 400, "bad-request"),
        (framed([1, 2, 3])[:-4], 400, "bad-request"),
        (framed([]), 400, "bad-request"),
        (framed([200_058]), 400, "bad-request"),
        (framed([1] * LIMIT), 413, "context-too-long"),
        (framed(*with_media("image", "sha256:" + "0" * 64, 2)), 409, "blob-missing"),
    ],
    ids=["empty", "magic only", "cut header", "no id", "cut ids", "other id", "no tokens", "vocabulary", "limit", "blob"],
)
def test_bad_frames_are_refused_and_nothing_is_kept(client: TestClient, frame: bytes, status: int, kind: str) -> None:
    answer = client.post("/workbench/contexts", content=frame)
    assert (answer.status_code, code(answer)) == (status, kind)
    assert list(client.app.state.workbench.contexts.folder.iterdir()) == []  # type: ignore[attr-defined]


def test_the_longest_context_that_fits(client: TestClient) -> None:
    assert client.post("/workbench/contexts", content=framed([1] * (LIMIT - 1))).status_code == 201


@pytest.mark.parametrize(("size", "tokens"), [((512, 384), 520), ((40, 40), 6), ((90, 130), 35)])
def test_images_are_counted_by_the_engines_rule(client: TestClient, size, tokens: int) -> None:
    content = png(*size)
    client.put(f"/workbench/blobs/{sha(content)}", content=content)
    right, wrong = (with_media("image", sha(content), count) for count in (tokens, tokens + 1))
    assert client.post("/workbench/contexts", content=framed(*right)).status_code == 201
    answer = client.post("/workbench/contexts", content=framed(*wrong))
    assert (answer.status_code, code(answer)) == (409, "render-mismatch")
    other = client.post("/workbench/contexts", content=framed(*right, rule=ImageRule(upscale=None)))
    assert code(other) == "render-mismatch"


@pytest.mark.parametrize(("samples", "tokens"), [(1, 1), (800, 1), (801, 2), (16_001, 21)])
def test_recordings_are_counted_by_fifty_milliseconds(client: TestClient, samples: int, tokens: int) -> None:
    content = wav(samples)
    client.put(f"/workbench/blobs/{sha(content)}", content=content)
    assert client.post("/workbench/contexts", content=framed(*with_media("audio", sha(content), tokens))).status_code == 201


@pytest.mark.parametrize("content", [wav(4410, 44100), wav(100, channels=2), wav(0), b"RIFF", b""])
def test_other_recordings_are_refused(client: TestClient, content: bytes) -> None:
    client.put(f"/workbench/blobs/{sha(content)}", content=content)
    answer = client.post("/workbench/contexts", content=framed(*with_media("audio", sha(content), 1)))
    assert (answer.status_code, code(answer)) == (400, "bad-request")


def test_a_marker_that_the_model_wrote_cannot_be_mistaken_for_an_image(client: TestClient) -> None:
    answer = client.post("/workbench/contexts", content=framed([1, FRAMING.content_image, 2]))
    assert code(answer) == "render-mismatch"


def test_placeholders_without_their_marker_are_refused(client: TestClient) -> None:
    content = png(40, 40)
    client.put(f"/workbench/blobs/{sha(content)}", content=content)
    ids, media = with_media("image", sha(content), 6)
    ids[1] = 5
    assert code(client.post("/workbench/contexts", content=framed(ids, media))) == "bad-request"


def test_collapsing_keeps_everything_but_the_placeholders(client: TestClient, blobs: BlobStore) -> None:
    content = png(40, 40)
    client.put(f"/workbench/blobs/{sha(content)}", content=content)
    ids, media = with_media("image", sha(content), 6)
    name = client.post("/workbench/contexts", content=framed(ids, media)).json()["context"]
    stored = client.app.state.workbench.contexts.get(name)  # type: ignore[attr-defined]
    assert collapse(stored) == [FRAMING.message_user, FRAMING.content_image, FRAMING.end_message]


def test_a_blob_that_was_cleaned_away_is_missed_by_name(blobs: BlobStore) -> None:
    with pytest.raises(errors.BlobMissing, match="upload it first"):
        blobs.read("sha256:" + "0" * 64)
