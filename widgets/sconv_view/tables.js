// The kernels and the strip in view as tables.

import { count, percent } from "../_shared/format.js";
import { table } from "../_shared/table.js";
import { QUANTILES } from "./kernels.js";

const number = (/** @type {number} */ value) => (Number.isNaN(value) ? "–" : value.toFixed(2).replace("-", "−"));

/**
 * Mean of each row of a strip over the buckets that hold something, in the strip's own unit.
 * @param {{rows: number, buckets: number, values: Uint8Array, limits: number[]}} strip @returns {(number | null)[]}
 */
export function rowMeans({ rows, buckets, values, limits: [low, high] }) {
  return Array.from({ length: rows }, (_, l) => {
    let [sum, held] = [0, 0];
    for (const value of values.subarray(l * buckets, (l + 1) * buckets)) {
      if (value === 255) continue;
      sum += low + (value / 254) * (high - low);
      held += 1;
    }
    return held ? sum / held : null;
  });
}

/** @param {{meta: any, kernels: Float32Array, strip: any, what: string, named: (value: number) => string}} options */
export function tablesOf({ meta, kernels, strip, what, named }) {
  const taps = meta.kernel_taps;
  const back = Array.from({ length: taps }, (_, i) => taps - 1 - i);
  const kernelRows = meta.layers.flatMap((/** @type {number} */ layer, /** @type {number} */ l) => meta.sites.map((/** @type {string} */ site, /** @type {number} */ s) =>
    [`Layer ${layer}, ${meta.site_words[site]}`, ...back.map((tap) => number(kernels[((l * meta.sites.length + s) * taps + tap) * QUANTILES + 2]))]));
  const means = strip ? rowMeans(strip) : [];
  const stripRows = means.map((mean, l) => [`Layer ${meta.layers[l]}`, mean == null ? "–" : named(mean)]);
  const share = strip ? (strip.width * strip.buckets) / meta.tokens : 0;
  return [
    table(`${what}, mean of the ${strip ? count(strip.buckets) : 0} buckets in view (${percent(Math.min(1, share))} of the tokens)`, ["Layer", "Mean"], stripRows),
    table("Kernels: median weight over the channels, by tap", ["Convolution", ...back.map((tap) => (tap ? `Tap −${tap}` : "Tap 0"))], kernelRows),
  ];
}
