// Layers × experts: how much each expert is used, and beside it, set apart, what the sinks hold. Knows no tokens.

import { fit, frame, paint, rgb, theme } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";
import { bindKeys } from "../_shared/keys.js";

const LEFT = 52; // room for the layers' numbers
const TOP = 36;
const GAP = 28; // between experts and sinks
const MAX_CELL = 56;

/**
 * @param {{meta: any, palette: Uint8Array, signal: AbortSignal, onHover: (cell: number[] | null) => void,
 *   onChoose: (cell: number[] | null) => void}} options a cell is [row, expert], rows counted from 0
 */
export function createHeat({ meta, palette, signal, onHover, onChoose }) {
  const rows = meta.layers.length;
  const experts = meta.experts;
  const canvas = element("canvas", {
    class: "ink-canvas", tabindex: "0", role: "application", "aria-roledescription": "heat map",
    "aria-label": `Use of ${experts} experts in ${rows} layers. Arrow keys move, Enter chooses an expert, Escape lets go.`,
  });
  /** @type {{values: Float32Array, sink: Float32Array, top: number}} */
  let load = { values: new Float32Array(rows * experts), sink: new Float32Array(rows * meta.sinks), top: 1 };
  /** @type {HTMLCanvasElement | undefined} */
  let picture;
  /** @type {number[] | null} */ let chosen = null;
  /** @type {number[] | null} */ let hovered = null;
  let cursor = [0, 0];
  let width = 640;

  const rowHeight = () => Math.max(4, Math.min(22, Math.floor(264 / rows)));
  const sinkWidth = () => Math.max(96, Math.min(200, width * 0.2));
  const cellWidth = () => Math.min(MAX_CELL, (width - LEFT - GAP - sinkWidth()) / experts);

  function repaint() {
    const scaled = new Uint8Array(load.values.length);
    for (let i = 0; i < scaled.length; i += 1) {
      scaled[i] = Number.isNaN(load.values[i]) ? 255 : Math.min(254, Math.round((load.values[i] / load.top) * 254));
    }
    picture = paint(scaled, rows, experts, palette, rgb(meta.missing), picture);
    draw();
  }

  const draw = frame(() => {
    const [h, w] = [rowHeight(), cellWidth()];
    const context = fit(canvas, width, TOP + rows * h + 2);
    const colour = theme(canvas);
    context.font = `11px ${colour.font}`;
    context.fillStyle = colour.muted;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillText("Experts", LEFT, 9);
    const sinkLeft = LEFT + experts * w + GAP;
    context.fillText("Sinks, share of the weight", sinkLeft, 9);
    drawTicks(context, w, h, sinkLeft);
    if (picture) context.drawImage(picture, LEFT, TOP, experts * w, rows * h);
    if (w >= 10 && h >= 10) drawGrid(context, w, h, colour.ground);
    drawSinks(context, sinkLeft, h, colour);
    const marked = document.activeElement === canvas ? cursor : hovered;
    if (marked) outline(context, marked, w, h, colour.ink, 1.5);
    if (chosen) outline(context, chosen, w, h, colour.accent, 3);
  });

  function drawTicks(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ w, /** @type {number} */ h,
    /** @type {number} */ sinkLeft) {
    const every = [1, 2, 4, 8, 16, 32, 64, 128].find((n) => n * w >= 26) ?? 256;
    context.textAlign = "center";
    for (let e = 0; e < experts; e += every) context.fillText(String(e), LEFT + (e + 0.5) * w, 26);
    context.textAlign = "right";
    context.fillText("Layer", LEFT - 8, 26);
    const step = Math.ceil(12 / h);
    for (let l = 0; l < rows; l += step) context.fillText(String(meta.layers[l]), LEFT - 8, TOP + (l + 0.5) * h);
    const wide = sinkWidth() - 44;
    context.textAlign = "left";
    context.fillText("0", sinkLeft, 26);
    context.textAlign = "center";
    context.fillText("50 %", sinkLeft + wide / 2, 26);
    context.fillText("100 %", sinkLeft + wide, 26);
  }

  function drawGrid(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ w, /** @type {number} */ h,
    /** @type {string} */ ground) {
    context.fillStyle = ground;
    for (let e = 1; e < experts; e += 1) context.fillRect(LEFT + e * w - 0.5, TOP, 1, rows * h);
    for (let l = 1; l < rows; l += 1) context.fillRect(LEFT, TOP + l * h - 0.5, experts * w, 1);
  }

  /** One bar per layer; its segments are the sinks, told apart by a gap and lightness. */
  function drawSinks(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ left, /** @type {number} */ h,
    /** @type {any} */ colour) {
    const wide = sinkWidth() - 44;
    const pad = h >= 10 ? 3 : 0.5;
    for (let l = 0; l < rows; l += 1) {
      const y = TOP + l * h;
      context.globalAlpha = 0.5;
      context.fillStyle = colour.line;
      context.fillRect(left, y + pad, wide, h - 2 * pad);
      let at = left;
      let sum = 0;
      for (let s = 0; s < meta.sinks; s += 1) {
        const share = load.sink[l * meta.sinks + s] || 0;
        context.globalAlpha = s % 2 ? 0.55 : 1;
        context.fillStyle = colour.accent;
        context.fillRect(at, y + pad, Math.max(0, share * wide - 1), h - 2 * pad);
        at += share * wide;
        sum += share;
      }
      context.globalAlpha = 1;
      if (h < 11) continue;
      context.fillStyle = colour.muted;
      context.textAlign = "left";
      context.fillText(`${Math.round(sum * 100)} %`, left + wide + 8, y + h / 2);
    }
  }

  function outline(/** @type {CanvasRenderingContext2D} */ context, /** @type {number[]} */ [l, e], /** @type {number} */ w,
    /** @type {number} */ h, /** @type {string} */ stroke, /** @type {number} */ line) {
    context.lineWidth = line;
    context.strokeStyle = stroke;
    context.strokeRect(LEFT + e * w, TOP + l * h, Math.max(w, 3), h);
  }

  function cellAt(/** @type {PointerEvent | MouseEvent} */ event) {
    const l = Math.floor((event.offsetY - TOP) / rowHeight());
    const e = Math.floor((event.offsetX - LEFT) / cellWidth());
    return l >= 0 && l < rows && e >= 0 && e < experts ? [l, e] : null;
  }

  const same = (/** @type {number[] | null} */ a, /** @type {number[] | null} */ b) => a && b && a[0] === b[0] && a[1] === b[1];
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const cell = cellAt(event);
    canvas.style.cursor = cell ? "pointer" : "default";
    if (same(cell, hovered) || (!cell && !hovered)) return;
    hovered = cell;
    onHover(cell);
    draw();
  }, { signal });
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    onHover(null);
    draw();
  }, { signal });
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const cell = cellAt(event);
    if (!cell) return;
    cursor = cell;
    onChoose(same(cell, chosen) ? null : cell);
  }, { signal });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => draw(), { signal });

  function move(/** @type {number} */ down, /** @type {number} */ right) {
    cursor = [Math.max(0, Math.min(rows - 1, cursor[0] + down)), Math.max(0, Math.min(experts - 1, cursor[1] + right))];
    onHover(cursor);
    draw();
  }
  bindKeys(canvas, {
    left: () => move(0, -1), right: () => move(0, 1), up: () => move(-1, 0), down: () => move(1, 0),
    home: () => move(0, -experts), end: () => move(0, experts), pageUp: () => move(-8, 0), pageDown: () => move(8, 0),
    choose: () => onChoose(same(cursor, chosen) ? null : [...cursor]), leave: () => onChoose(null),
  }, signal);

  return {
    el: canvas,
    /** @param {Float32Array} values (l,e) shares @param {Float32Array} sink (l,s) */
    setLoad(values, sink) {
      let top = 0;
      for (const value of values) if (value > top) top = value;
      load = { values, sink, top: top || 1 };
      repaint();
      return load.top;
    },
    /** @param {number[] | null} cell */
    setChosen(cell) {
      chosen = cell;
      if (cell) cursor = cell;
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
    draw,
  };
}
