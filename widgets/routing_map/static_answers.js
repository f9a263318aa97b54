// The answers of workbench/routing_views.py, computed in the page from embedded arrays: pure, no page.
//
// expert (t,l,k) uint8 or uint16, share (t,l,k) and sink (t,l,s) uint16 with 65535 for 1, texts one per token.

const ONE = 65_535;

/** @param {any} meta @param {{expert: any, share: Uint16Array, sink: Uint16Array, texts: string[]}} data */
export function answers(meta, { expert, share, sink, texts }) {
  const [L, K, S, E] = [meta.layers.length, meta.top_k, meta.sinks, meta.experts];

  /** One value of a metric; NaN where nothing was written. */
  function value(/** @type {string} */ metric, /** @type {number} */ t, /** @type {number} */ l, /** @type {number} */ chosen) {
    const [at, sat] = [(t * L + l) * K, (t * L + l) * S];
    let [total, mass] = [0, 0];
    for (let k = 0; k < K; k += 1) total += share[at + k];
    for (let s = 0; s < S; s += 1) mass += sink[sat + s];
    if (total + mass === 0) return Number.NaN;
    if (metric === "sink") return mass / ONE;
    let found = 0;
    for (let k = 0; k < K; k += 1) {
      const p = share[at + k] / total;
      if (metric === "expert") found += expert[at + k] === chosen ? share[at + k] / ONE : 0;
      else if (p > 0) found -= p * Math.log2(p);
    }
    return found;
  }

  function strip(/** @type {any} */ { metric, stat, start, stop, buckets, layer, expert: chosen }) {
    const width = Math.ceil((stop - start) / buckets);
    const first = start - (start % width);
    const count = Math.ceil((stop - first) / width);
    const row = metric === "expert" ? meta.layers.indexOf(layer) : 0;
    const rows = metric === "expert" ? 1 : L;
    const [low, high] = meta.limits[metric];
    const values = new Uint8Array(rows * count);
    for (let l = 0; l < rows; l += 1) {
      for (let b = 0; b < count; b += 1) {
        let [sum, held, top] = [0, 0, -Infinity];
        for (let t = first + b * width; t < Math.min(first + (b + 1) * width, meta.tokens); t += 1) {
          const one = value(metric, t, l + row, chosen);
          if (Number.isNaN(one)) continue;
          sum += one;
          held += 1;
          top = Math.max(top, one);
        }
        const shown = stat === "max" ? top : sum / held;
        values[l * count + b] = held ? Math.round(Math.max(0, Math.min(1, (shown - low) / (high - low))) * 254) : 255;
      }
    }
    const result = { metric, stat, start: first, width, buckets: count, rows };
    return { result: width === 1 && count <= 64 ? { ...result, texts: texts.slice(first, first + count) } : result, buffers: [values] };
  }

  function range(/** @type {any} */ { start, stop }) {
    const [shares, chosen, sinks] = [new Float32Array(L * E), new Float32Array(L * E), new Float32Array(L * S)];
    const written = new Float32Array(L);
    let [bits, held] = [0, 0];
    for (let t = start; t < stop; t += 1) {
      for (let l = 0; l < L; l += 1) {
        const one = value("entropy", t, l, 0);
        if (Number.isNaN(one)) continue;
        written[l] += 1;
        bits += one;
        held += 1;
        for (let k = 0; k < K; k += 1) {
          const at = (t * L + l) * K + k;
          shares[l * E + expert[at]] += share[at] / ONE;
          chosen[l * E + expert[at]] += 1;
        }
        for (let s = 0; s < S; s += 1) sinks[l * S + s] += sink[(t * L + l) * S + s] / ONE;
      }
    }
    for (let i = 0; i < L * E; i += 1) {
      shares[i] /= written[Math.floor(i / E)];
      chosen[i] /= written[Math.floor(i / E)];
    }
    for (let i = 0; i < L * S; i += 1) sinks[i] /= written[Math.floor(i / S)];
    const text = texts.slice(start, Math.min(stop, start + 48)).join("").trim();
    const cut = text && stop - start > 48 ? "…" : "";
    return { result: { start, stop, text: text + cut, entropy_bits: held ? bits / held : null }, buffers: [shares, chosen, sinks].map(bytes) };
  }

  function token(/** @type {any} */ { t }) {
    const layers = Array.from({ length: L }, (_, l) => l);
    const number = (/** @type {number} */ v) => (Number.isNaN(v) ? null : v);
    const result = {
      t, text: texts[t] ?? "", entropy_bits: layers.map((l) => number(value("entropy", t, l, 0))),
      sink_mass: layers.map((l) => number(value("sink", t, l, 0))),
    };
    const [from, to] = [t * L * K, (t + 1) * L * K];
    const shares = Float32Array.from(share.subarray(from, to), (v) => v / ONE);
    return { result, buffers: [bytes(Uint16Array.from(expert.subarray(from, to))), bytes(shares)] };
  }

  const bytes = (/** @type {any} */ array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  /** @type {Record<string, (args: any) => any>} */
  const verbs = { strip, range, token };
  return (/** @type {string} */ verb, /** @type {any} */ args) => {
    if (args.stop > meta.tokens || args.start < 0 || args.t >= meta.tokens) throw new Error("there are no such tokens in this report");
    return verbs[verb](args);
  };
}
