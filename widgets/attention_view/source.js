// What a part is, fetched with the weights on it: a picture, a recording, or a passage of text.

import { asFloat32 } from "../_shared/bytes.js";
import { count, tokens } from "../_shared/format.js";
import { pictureOf } from "../_shared/media.js";
import { createHeated } from "./media.js";

const PASSAGE_TOKENS = 400;

/**
 * The part that holds a range of tokens, or else the first that is content; and the stretch of it that is meant.
 * @param {any[]} parts with ranges, heaviest first @param {number[] | null} range
 * @returns {{part: any, stretch: number[]} | null}
 */
export function partOf(parts, range) {
  const stretchOf = (/** @type {any} */ part) =>
    range && part.ranges.find((/** @type {number[]} */ [from, to]) => range[0] >= from && range[0] < to);
  const part = parts.find(stretchOf) ?? parts.find((item) => item.modality !== "framing");
  return part ? { part, stretch: stretchOf(part) || part.ranges[0] } : null;
}

/** At most PASSAGE_TOKENS of a stretch, around a range or from its beginning. @param {number[]} stretch @param {number[] | null} range */
export function passageOf([from, to], range) {
  const middle = range ? Math.floor((range[0] + range[1]) / 2) : from;
  const start = Math.max(from, Math.min(to - PASSAGE_TOKENS, middle - PASSAGE_TOKENS / 2));
  return [start, Math.min(to, start + PASSAGE_TOKENS)];
}

/**
 * @param {{meta: any, ask: Function, row: () => any, signal: AbortSignal, chosen: (range: number[] | null) => void,
 *   onHover: (words: string | null) => void, onSelect: (range: number[]) => void}} options
 */
export function createSource({ meta, ask, row, signal, chosen, onHover, onSelect }) {
  const heated = createHeated({ signal, onHover, onSelect });
  const { show } = heated;
  /** Weights from `start` on: an answer holds so many tokens, a long item takes several. */
  async function weightsOf(/** @type {number} */ start, /** @type {number} */ stop) {
    const weights = new Float32Array(stop - start);
    /** @type {any} */ let first = null;
    for (let at = start; at < stop;) {
      const found = await ask("tokens", { ...row(), start: at, stop }, "source");
      if (!found) return null;
      first ??= found.result;
      weights.set(asFloat32(found.buffers[0]), at - start);
      at = found.result.stop;
    }
    return { weights, texts: first?.texts ?? [], finest: first?.finest ?? 1 };
  }
  return {
    el: heated.el,
    draw: heated.draw,
    resize: heated.resize,
    /** @param {any[]} parts @param {number[] | null} range */
    async show(parts, range) {
      heated.setSelection(range ? [range] : []);
      const found = partOf(parts, range);
      if (!found) return show(null);
      const { part, stretch } = found;
      chosen(stretch);
      const index = part.modality === "text" ? -1
        : meta.media.findIndex((/** @type {any} */ item) => item.start >= stretch[0] && item.start < stretch[1]);
      const item = meta.media[index];
      const [start, stop] = item ? [item.start, item.start + item.tokens] : passageOf(stretch, range);
      const had = await weightsOf(start, stop);
      if (!had) return undefined;
      const { weights, texts, finest } = had;
      const spread = finest > 1 ? `Recorded in buckets of ${count(finest)} tokens: shown evenly within each.` : "";
      if (!item) return show({ kind: "text", label: `${part.label}, ${tokens(start, stop)}`, start, weights, texts, note: spread });
      const source = await ask("media", { index }, "media");
      if (!source) return undefined;
      const note = `${item.here ? "" : "The capture does not hold its bytes. "}${spread}`;
      const shown = { kind: item.kind, label: part.label, start, weights, note, ...source.result };
      const bytes = source.buffers[0];
      return show(item.kind === "audio" ? { ...shown, peaks: bytes ? asFloat32(bytes) : null }
        : { ...shown, picture: bytes ? await pictureOf(bytes) : null });
    },
  };
}
