// A row of attention as bytes to colour, and the numbers behind them: pure, no page.

/** Lowest and highest of some values; NaN counts nowhere. @param {Iterable<number>} values @returns {[number, number] | null} */
export function limits(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/**
 * Weight on a square-root scale from 0 to the largest, logits linearly between their ends; 255 where nothing is known.
 * @param {Float32Array} values (3, b): weight, content, bias @param {number} buckets
 * @returns {{bytes: Uint8Array, top: number, content: [number, number] | null, bias: [number, number] | null}}
 */
export function toBytes(values, buckets) {
  const lane = (/** @type {number} */ i) => values.subarray(i * buckets, (i + 1) * buckets);
  const top = limits(lane(0))?.[1] || 0;
  const ends = [[0, top], limits(lane(1)), limits(lane(2))];
  const bytes = new Uint8Array(3 * buckets).fill(255);
  for (let i = 0; i < 3; i += 1) {
    const [low, high] = ends[i] ?? [0, 0];
    for (let b = 0; b < buckets; b += 1) {
      const value = values[i * buckets + b];
      if (Number.isNaN(value)) continue;
      const share = high > low ? (value - low) / (high - low) : 0;
      bytes[i * buckets + b] = Math.round((i === 0 ? Math.sqrt(share) : share) * 254);
    }
  }
  return { bytes, top, content: /** @type {any} */ (ends[1]), bias: /** @type {any} */ (ends[2]) };
}

/** Opacity of a weight over a picture: square root, so that small weights show. @param {number} value @param {number} top */
export function opacity(value, top) {
  return top > 0 && value > 0 ? Math.min(1, Math.sqrt(value / top)) : 0;
}
