// The same numbers as text: layers with their most used experts, and the parts.

import { element } from "../_shared/dom.js";
import { bits, count, percent } from "../_shared/format.js";
import { table } from "../_shared/table.js";

const TOP = 5;

/**
 * @param {any} meta @param {Float32Array} values (l,e) @param {Float32Array} sink (l,s) @param {string} what words for `values`
 * @param {string} whose tokens
 */
export function createTables(meta, values, sink, what, whose) {
  const layers = meta.layers.map((/** @type {number} */ layer, /** @type {number} */ l) => {
    const row = Array.from(values.subarray(l * meta.experts, (l + 1) * meta.experts));
    const best = row.map((value, e) => ({ value, e })).filter((item) => item.value !== 0 && !Number.isNaN(item.value))
      .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    let mass = 0;
    for (let s = 0; s < meta.sinks; s += 1) mass += sink[l * meta.sinks + s];
    const named = best.slice(0, TOP).map(({ value, e }) => `${e} (${value < 0 ? "−" : ""}${percent(Math.abs(value))})`).join(", ");
    return [`Layer ${layer}`, percent(mass), String(best.length), named || "–"];
  });
  const parts = (meta.parts ?? []).map((/** @type {any} */ part) =>
    [part.label, part.modality, count(part.tokens), bits(part.entropy_bits), percent(part.sink_mass)]);
  return [
    table(`Layers, ${whose}`, ["Layer", "Sinks", "Experts used", `Most used experts, ${what}`], layers),
    meta.parts ? table("Parts, whole context", ["Part", "Kind", "Tokens", "Mean entropy", "Mean sink share"], parts)
      : element("p", { class: "ink-facts", role: "status", text: "Walking the capture for its parts…" }),
  ];
}
