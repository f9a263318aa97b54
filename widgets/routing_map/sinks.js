// What the sinks hold, set apart beside the experts: one bar per layer, its segments are the sinks.

const GAP = 28; // between experts and sinks
const NUMBERS = 44; // room for the percentages

/** @param {{meta: any}} options */
export function createSinks({ meta }) {
  /** @type {Float32Array} */ let share = new Float32Array(meta.layers.length * meta.sinks);
  /** @type {Float32Array | null} */ let other = null;
  let wide = 96;
  const of = (/** @type {Float32Array} */ values, /** @type {number} */ l) => {
    let sum = 0;
    for (let s = 0; s < meta.sinks; s += 1) sum += values[l * meta.sinks + s] || 0;
    return sum;
  };
  return {
    /** @param {Float32Array} values (l,s) @param {Float32Array | null} [against] the other capture's, marked by a line */
    set(values, against = null) {
      [share, other] = [values, against];
    },
    /** @type {import("../_shared/matrix.js").Beside} */
    beside: {
      room(width) {
        wide = Math.max(96, Math.min(200, width * 0.2)) - NUMBERS;
        return GAP + wide + NUMBERS;
      },
      draw(context, right, top, h, colour) {
        const left = right + GAP;
        context.fillStyle = colour.muted;
        context.textAlign = "left";
        const title = "Sinks, share of the weight";
        context.fillText(context.measureText(title).width > wide + NUMBERS ? "Sinks" : title, left, 9);
        context.fillText("0", left, 26);
        context.textAlign = "center";
        context.fillText("50 %", left + wide / 2, 26);
        context.fillText("100 %", left + wide, 26);
        const pad = h >= 10 ? 3 : 0.5;
        for (let l = 0; l < meta.layers.length; l += 1) {
          const y = top + l * h;
          context.globalAlpha = 0.5;
          context.fillStyle = colour.line;
          context.fillRect(left, y + pad, wide, h - 2 * pad);
          let at = left;
          context.fillStyle = colour.accent;
          for (let s = 0; s < meta.sinks; s += 1) {
            const part = (share[l * meta.sinks + s] || 0) * wide;
            context.globalAlpha = s % 2 ? 0.55 : 1; // told apart by a gap and lightness
            context.fillRect(at, y + pad, Math.max(0, part - 1), h - 2 * pad);
            at += part;
          }
          context.globalAlpha = 1;
          if (other) {
            context.fillStyle = colour.ink;
            context.fillRect(left + of(other, l) * wide - 1, y + pad - 2, 2, h - 2 * pad + 4);
          }
          if (h < 11) continue;
          context.fillStyle = colour.muted;
          context.textAlign = "left";
          context.fillText(`${Math.round(of(share, l) * 100)} %`, left + wide + 8, y + h / 2);
        }
      },
    },
  };
}
