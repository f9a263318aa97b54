// One kernel whole: taps by channels, blue below zero and vermilion above, channels with the largest weights first.

import { fit, frame, paint, theme } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";

const [LEFT, TOP, TALL] = [104, 22, 16];

/** Weights as indices of a diverging palette whose middle, 127, is zero. @param {Float32Array} values @param {number} top */
export function diverge(values, top) {
  return Uint8Array.from(values, (value) => Math.round(127 + Math.max(-1, Math.min(1, value / (top || 1))) * 127));
}

/** @param {{palette: Uint8Array, signal: AbortSignal, onHover: (words: string | null) => void}} options */
export function createKernel({ palette, signal, onHover }) {
  const canvas = element("canvas", { class: "ink-canvas", role: "img", "aria-label": "Weights of the chosen kernel" });
  /** @type {any} */ let data = null;
  /** @type {HTMLCanvasElement | undefined} */ let picture;
  let width = 640;
  const wide = () => Math.min(14 * (data?.shown ?? 1), width - LEFT);
  const draw = frame(() => {
    const context = fit(canvas, width, TOP + (data?.taps ?? 4) * TALL + 20);
    const colour = theme(canvas);
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colour.muted;
    if (!data) return;
    context.fillText(data.title, LEFT, 10);
    context.fillText(`± ${data.top.toFixed(2)}`, 0, TOP + (data.taps * TALL) / 2);
    context.textAlign = "right";
    for (let tap = 0; tap < data.taps; tap += 1) context.fillText(tap ? `−${tap}` : "0", LEFT - 8, TOP + (tap + 0.5) * TALL);
    if (picture) context.drawImage(picture, LEFT, TOP, wide(), data.taps * TALL);
    context.textAlign = "left";
    const rest = data.channels > data.shown ? `, of ${count(data.channels)}` : "";
    context.fillText(`${count(data.shown)} channels${rest}, the largest weights first`, LEFT, TOP + data.taps * TALL + 12);
  });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!data) return;
    const [tap, c] = [Math.floor((event.offsetY - TOP) / TALL), Math.floor(((event.offsetX - LEFT) / wide()) * data.shown)];
    if (tap < 0 || tap >= data.taps || c < 0 || c >= data.shown) return onHover(null);
    const value = data.values[tap * data.shown + c];
    return onHover(`Tap ${tap ? `−${tap}` : "0"}, channel ${count(c + 1)} by size: weight ${value.toFixed(3).replace("-", "−")}`);
  }, { signal });
  canvas.addEventListener("pointerleave", () => onHover(null), { signal });
  return {
    el: canvas,
    draw,
    /** @param {any} given taps, shown, channels, top, title, values (tap, c) */
    set(given) {
      data = given;
      canvas.setAttribute("aria-label", `${given.title}: ${count(given.channels)} channels by ${given.taps} taps`);
      picture = paint(diverge(given.values, given.top), given.taps, given.shown, palette, [244, 244, 244], picture);
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
