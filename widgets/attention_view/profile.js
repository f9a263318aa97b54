// Distance profiles: what the relative bias adds at each distance, the layer's bank in grey and what the token's heads mix from it.

import { fit, frame, theme } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";
import { niceStep } from "../_shared/bands.js";
import { limits } from "./lanes.js";

const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [44, 12, 26, 34, 200];

/** Distance at a place of the logarithmic axis. @param {number} share 0 to 1 @param {number} reach */
export function distanceAt(share, reach) {
  return Math.max(0, Math.min(reach - 1, Math.round((reach + 1) ** share) - 1));
}

/** @param {{signal: AbortSignal, onHover: (words: string | null) => void}} options */
export function createProfile({ signal, onHover }) {
  const canvas = element("canvas", { class: "ink-canvas", role: "img", "aria-label": "Relative bias by distance" });
  /** @type {{reach: number, bank: Float32Array, mixed: Float32Array, head: number, title: string}} */
  let data = { reach: 0, bank: new Float32Array(0), mixed: new Float32Array(0), head: -1, title: "" };
  let width = 320;
  /** @type {number | null} */ let hovered = null;
  const plot = () => Math.max(1, width - LEFT - RIGHT);
  const x = (/** @type {number} */ d) => LEFT + (Math.log(d + 1) / Math.log(data.reach + 1)) * plot();

  function lines(/** @type {CanvasRenderingContext2D} */ context, /** @type {Float32Array} */ values, /** @type {(v: number) => number} */ y,
    /** @type {(row: number) => [string, number]} */ style) {
    const rows = data.reach ? values.length / data.reach : 0;
    for (let row = 0; row < rows; row += 1) {
      const [colour, line] = style(row);
      if (!line) continue;
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.beginPath();
      let last = -1;
      for (let d = 0; d < data.reach; d += 1) {
        const at = x(d);
        if (at - last < 0.5 && d < data.reach - 1) continue; // no more points than pixels
        last = at;
        context.lineTo(at, y(values[row * data.reach + d]));
      }
      context.stroke();
    }
  }

  const draw = frame(() => {
    const context = fit(canvas, width, HEIGHT);
    const colour = theme(canvas);
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colour.muted;
    context.fillText(data.title, LEFT, 9);
    const ends = limits([...data.bank, ...data.mixed]);
    if (!data.reach || !ends) {
      context.fillText("Not recorded.", LEFT, HEIGHT / 2);
      return;
    }
    const [low, high] = [Math.min(0, ends[0]), Math.max(0, ends[1])];
    const y = (/** @type {number} */ value) => TOP + (1 - (value - low) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
    context.fillStyle = colour.line;
    context.fillRect(LEFT, y(0) - 0.5, plot(), 1);
    context.fillStyle = colour.muted;
    context.textAlign = "right";
    for (const value of new Set([low, 0, high])) context.fillText(value.toFixed(1).replace("-", "−"), LEFT - 8, y(value));
    context.textAlign = "center";
    for (let d = 1; d < data.reach; d = niceStep(d * 4)) {
      context.fillRect(x(d), HEIGHT - BOTTOM + 2, 1, 4);
      context.fillText(count(d), x(d), HEIGHT - BOTTOM + 14);
    }
    context.fillText("Distance back, tokens (logarithmic)", LEFT + plot() / 2, HEIGHT - 6);
    lines(context, data.bank, y, () => [colour.line, 1]);
    const some = data.head >= 0;
    lines(context, data.mixed, y, (row) => (some && row !== data.head ? [colour.accent, 0] : [colour.accent, some ? 2 : 1]));
    if (hovered == null) return;
    context.fillStyle = colour.ink;
    context.fillRect(x(hovered) - 0.5, TOP, 1, HEIGHT - TOP - BOTTOM);
  });

  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!data.reach) return;
    const d = distanceAt((event.offsetX - LEFT) / plot(), data.reach);
    hovered = d;
    const column = (/** @type {Float32Array} */ values) =>
      Array.from({ length: values.length / data.reach }, (_, row) => values[row * data.reach + d]);
    const mixed = column(data.mixed).filter((_, row) => data.head < 0 || row === data.head);
    const ends = limits(mixed.length ? mixed : column(data.bank));
    const words = ends ? (ends[0] === ends[1] ? ends[0].toFixed(2) : `${ends[0].toFixed(2)} to ${ends[1].toFixed(2)}`) : "–";
    onHover(`Distance ${count(d)}: ${mixed.length ? "bias" : "bank"} ${words.replaceAll("-", "−")}`);
    draw();
  }, { signal });
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    onHover(null);
    draw();
  }, { signal });

  return {
    el: canvas,
    draw,
    /** @param {typeof data} given bank (r,d) and what the heads mix (h,d); `head` is a row of the latter, or -1 for all */
    set(given) {
      data = given;
      canvas.setAttribute("aria-label", `${given.title}, distances 0 to ${count(Math.max(0, given.reach - 1))}`);
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
