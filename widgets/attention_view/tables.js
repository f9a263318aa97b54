// The heads and the row in view as tables.

import { percent, place, signed, spanAt, tokens, visible } from "../_shared/format.js";
import { table } from "../_shared/table.js";

const MOST = 20;

/**
 * The buckets of a row that hold most weight, heaviest first: indices.
 * @param {Float32Array} values (3, b) @param {number} buckets @param {number} most
 */
export function heaviest(values, buckets, most) {
  return Array.from({ length: buckets }, (_, b) => b).filter((b) => values[b] > 0).sort((a, b) => values[b] - values[a]).slice(0, most);
}

/**
 * @param {{meta: any, measures: Float32Array, measure: [string, string, (v: number) => string], at: number, detail: any, row: string}} options
 *   `at` is the measure's place in `measures`; `row` names the row
 */
export function tablesOf({ meta, measures, measure: [, words, named], at, detail, row }) {
  const size = meta.layers.length * meta.heads.length;
  const cell = (/** @type {number} */ l, /** @type {number} */ h) => {
    const value = measures[at * size + l * meta.heads.length + h];
    return Number.isNaN(value) ? "–" : named(value);
  };
  const heads = table(`Heads, ${words}`, ["Layer", ...meta.heads.map((/** @type {number} */ head) => `Head ${head}`)],
    meta.layers.map((/** @type {number} */ layer, /** @type {number} */ l) =>
      [`Layer ${layer}${meta.globals.includes(layer) ? ", global" : ""}`, ...meta.heads.map((/** @type {number} */ _, /** @type {number} */ h) => cell(l, h))]));
  if (!detail) return [heads];
  const lane = (/** @type {number} */ i, /** @type {number} */ b) => detail.values[i * detail.buckets + b];
  const keys = heaviest(detail.values, detail.buckets, MOST).map((b) => {
    const start = detail.start + b * detail.width;
    const text = detail.texts?.[b];
    return [tokens(start, Math.min(start + detail.width, meta.tokens)), `${text ? `“${visible(text)}”, ` : ""}${place(spanAt(meta.spans, start), start)}`,
      percent(lane(0, b)), signed(lane(1, b)), signed(lane(2, b))];
  });
  return [table(`${row}: where most of the weight in view lies`, ["Tokens", "Place", "Weight", "Content", "Bias"], keys), heads];
}
