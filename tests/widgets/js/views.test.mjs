// Pure functions of the views, by node's own runner: node --test tests/widgets/js/

import assert from "node:assert/strict";
import { test } from "node:test";

import { bandsOf, common, niceStep } from "../../../widgets/_shared/bands.js";
import { count, dropWords, percent, place, signed, spanAt, tokens } from "../../../widgets/_shared/format.js";
import { distanceAt } from "../../../widgets/attention_view/profile.js";
import { limits, opacity, toBytes } from "../../../widgets/attention_view/lanes.js";
import { partOf, passageOf } from "../../../widgets/attention_view/source.js";
import { dropIndex } from "../../../widgets/composer/entries.js";
import { toWav } from "../../../widgets/composer/recording.js";
import { inPieces, PIECE_BYTES, toBase64 } from "../../../widgets/composer/uploads.js";
import { piecesOf } from "../../../widgets/composer/window.js";
import { firstDifference } from "../../../widgets/sconv_view/asking.js";
import { diverge } from "../../../widgets/sconv_view/kernel.js";
import { scales } from "../../../widgets/sconv_view/kernels.js";
import { rowMeans } from "../../../widgets/sconv_view/tables.js";
import { rangesUnder, placeIn } from "../../../widgets/_shared/media.js";
import { heaviest } from "../../../widgets/attention_view/tables.js";
import { minus, signedPercent } from "../../../widgets/routing_map/difference.js";
import { meanRows, mediumOf } from "../../../widgets/routing_map/places.js";

test("numbers and places in words", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.deepEqual([percent(0), percent(0.0012), percent(0.042), percent(0.42), percent(NaN)], ["0 %", "0.12 %", "4.2 %", "42 %", "–"]);
  assert.deepEqual([signed(0.001), signed(-1.5), signed(2), signed(null)], ["0.00", "−1.50", "+2.00", "–"]);
  assert.deepEqual([tokens(5, 6), tokens(5, 1005)], ["token 5", "tokens 5 to 1,004"]);
  const spans = [{ start: 0, stop: 4, label: "a" }, { start: 4, stop: 10, label: "b", place: { kind: "image", rows: 2, cols: 3 } }];
  assert.equal(spanAt(spans, 4).label, "b");
  assert.equal(place(spans[1], 8), "b, patch row 2 of 2, column 2 of 3");
});

test("a drop in nats says how many times less likely the answer is", () => {
  assert.equal(dropWords(0.001), "no effect");
  assert.equal(dropWords(Math.log(2)), "answer 2.00 times less likely");
  assert.equal(dropWords(-Math.log(20)), "answer 20 times more likely");
  assert.equal(dropWords(Math.log(1234)), "answer 1,200 times less likely");
  assert.equal(dropWords(40), "answer more than a million times less likely");
});

test("a row of attention becomes bytes: weight by its square root, logits between their ends, 255 for what is unknown", () => {
  const { bytes, top, content, bias } = toBytes(Float32Array.of(0, 0.25, 1, NaN, -2, 0, 2, NaN, 3, 3, 3, NaN), 4);
  assert.deepEqual([...bytes], [0, 127, 254, 255, 0, 127, 254, 255, 0, 0, 0, 255]);
  assert.deepEqual([top, content, bias], [1, [-2, 2], [3, 3]]);
  assert.deepEqual(limits([NaN, 2, -1]), [-1, 2]);
  assert.equal(limits([NaN]), null);
  assert.deepEqual([opacity(0.25, 1), opacity(0, 1), opacity(1, 0)], [0.5, 0, 0]);
});

test("distances lie on a logarithmic axis that begins at 0 and ends at the reach", () => {
  assert.deepEqual([0, 0.5, 1].map((share) => distanceAt(share, 1024)), [0, 31, 1023]);
});

test("the part that holds a range is found, and a passage stays inside its stretch", () => {
  const parts = [{ modality: "framing", ranges: [[0, 3]] }, { modality: "text", ranges: [[3, 900], [950, 960]] }, { modality: "image", ranges: [[900, 950]] }];
  assert.deepEqual(partOf(parts, [955, 956]).stretch, [950, 960]);
  assert.equal(partOf(parts, [910, 911]).part.modality, "image");
  assert.deepEqual(partOf(parts, null).stretch, [3, 900]);
  assert.equal(partOf([parts[0]], null), null);
  assert.deepEqual(passageOf([3, 900], null), [3, 403]);
  assert.deepEqual(passageOf([3, 900], [890, 895]), [500, 900]);
  assert.deepEqual(passageOf([950, 960], [955, 956]), [950, 960]);
});

test("kernels of a site share a scale, and zero is the middle of a diverging palette", () => {
  const kernels = Float32Array.of(...new Array(5).fill(0.5), ...new Array(5).fill(NaN), ...new Array(5).fill(-2), ...new Array(5).fill(1));
  assert.deepEqual(scales(kernels, { layers: 2, sites: 2, taps: 1 }), [2, 1]);
  assert.deepEqual([...diverge(Float32Array.of(-3, -1, 0, 0.5, 1), 1)], [0, 0, 127, 191, 254]);
  assert.deepEqual([firstDifference("abc", "abd"), firstDifference("ab", "ab"), firstDifference("", "x")], [2, 2, 0]);
});

test("the window's bar is cut where a modality or the cache ends", () => {
  const sections = [{ label: "doc", start: 2, stop: 10, runs: [["text", 5], ["image", 3]] }, { label: "q", start: 12, stop: 14, runs: [["text", 2]] }];
  const pieces = piecesOf(sections, 5);
  assert.deepEqual(pieces.map(({ start, stop, modality, cached }) => [start, stop, modality, cached]), [
    [0, 2, "framing", true], [2, 5, "text", true], [5, 7, "text", false], [7, 10, "image", false], [10, 12, "framing", false], [12, 14, "text", false],
  ]);
  assert.ok(piecesOf(sections, null).every((piece) => !piece.cached));
});

test("an entry that is dragged lands where the mark is, as move counts", () => {
  // Every place of a list of four, by what `move` does with it.
  for (let from = 0; from < 4; from += 1) {
    for (let over = 0; over < 4; over += 1) {
      for (const below of [false, true]) {
        const list = ["a", "b", "c", "d"];
        const [held] = list.splice(from, 1);
        list.splice(dropIndex(from, over, below), 0, held);
        const at = ["a", "b", "c", "d"][over];
        if (over !== from) assert.equal(list[list.indexOf(at) + (below ? 1 : -1)], held);
      }
    }
  }
});

test("a recording is a WAV file of 16-bit samples", () => {
  const bytes = toWav(Float32Array.of(0, 1, -1, 2), 16000);
  const view = new DataView(bytes.buffer);
  assert.equal(bytes.length, 44 + 8);
  assert.equal(String.fromCharCode(...bytes.subarray(0, 4), ...bytes.subarray(8, 12)), "RIFFWAVE");
  assert.deepEqual([view.getUint32(24, true), view.getUint16(22, true), view.getUint16(34, true)], [16000, 1, 16]);
  assert.deepEqual([0, 1, 2, 3].map((i) => view.getInt16(44 + 2 * i, true)), [0, 32767, -32767, 32767]);
});

test("a file in pieces arrives whole and in order, and can be stopped", async () => {
  const bytes = Uint8Array.from({ length: PIECE_BYTES * 2 + 5 }, (_, i) => i % 251);
  const file = new File([bytes], "big.bin");
  const got = [];
  const ask = async (verb, args) => {
    if (verb === "upload") got.push(Buffer.from(args.data, "base64"));
    return { result: { verb, received: args.offset } };
  };
  const told = [];
  await inPieces(ask, "k", file, (sent) => told.push(sent), new AbortController().signal);
  assert.deepEqual(told, [PIECE_BYTES, PIECE_BYTES * 2, bytes.length]);
  assert.ok(Buffer.concat(got).equals(Buffer.from(bytes)));
  assert.equal(toBase64(Uint8Array.of(0, 255, 16)), Buffer.from([0, 255, 16]).toString("base64"));
  const ending = new AbortController();
  ending.abort();
  await assert.rejects(inPieces(ask, "k", file, () => {}, ending.signal), { name: "AbortError" });
});

test("runs of one part are one band, and steps are round", () => {
  const spans = [["framing", null, 0, 1], ["text", "a", 1, 4], ["text", "a", 4, 6], ["image", "b", 6, 9]].map(([modality, part, start, stop]) =>
    ({ modality, part, start, stop, label: part ? `${part}.pdf, page ${start}` : "role" }));
  assert.deepEqual(bandsOf(spans).map(({ start, stop }) => [start, stop]), [[0, 1], [1, 6], [6, 9]]);
  assert.equal(common("harbour.pdf, page 1", "harbour.pdf, page 2"), "harbour.pdf");
  assert.deepEqual([1, 3, 7, 11, 600].map(niceStep), [1, 5, 10, 20, 1000]);
});

test("a brush over patches is a range for each row, and one where the rows are whole", () => {
  assert.deepEqual(rangesUnder([1, 2], [0, 1], 4, 100), [[101, 103], [105, 107]]);
  assert.deepEqual(rangesUnder([0, 0], [1, 3], 4, 100), [[100, 108]]);
  assert.deepEqual(rangesUnder([0, 5], [0, 3], 60, 10), [[13, 16]]);
  assert.equal(placeIn({ kind: "audio" }, 3), "0.15 to 0.20 s");
  assert.equal(placeIn({ kind: "image", rows: 2, cols: 3 }, 4), "patch row 2 of 2, column 2");
});

test("a medium is coloured by the mean over the layers, and found by a range", () => {
  assert.deepEqual([...meanRows(Uint8Array.of(10, 255, 255, 20, 40, 255), 2, 3)], [15, 40, 255]);
  const media = [{ start: 5, tokens: 4 }, { start: 20, tokens: 2 }];
  assert.deepEqual([[0, 6], [9, 20], [21, 30], null].map((range) => mediumOf(media, range)), [0, -1, 1, -1]);
});

test("a difference has a sign", () => {
  assert.deepEqual([...minus(Float32Array.of(0.5, 0.25), Float32Array.of(0.25, 0.5))], [0.25, -0.25]);
  assert.deepEqual([0.123, -0.05, 0].map(signedPercent), ["+12 %", "−5.0 %", "0"]);
});

test("tables name the means of a strip and the heaviest buckets of a row", () => {
  assert.deepEqual(rowMeans({ rows: 2, buckets: 2, values: Uint8Array.of(0, 254, 255, 255), limits: [1, 3] }), [2, null]);
  assert.deepEqual(heaviest(Float32Array.of(0.1, NaN, 0.5, 0, 9, 9, 9, 9), 4, 2), [2, 0]);
});
