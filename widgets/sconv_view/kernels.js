// Kernels as small multiples: one little chart per site and layer, the spread of the weights at each tap over the channels.

import { fit, frame, theme } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";
import { bindKeys } from "../_shared/keys.js";

const LEFT = 104; // room for the sites' names
const TOP = 24;
const TALL = 46;
const GAP = 10;
export const QUANTILES = 5; // 10 %, 25 %, the median, 75 %, 90 %

/**
 * Largest weight of each site over layers, taps and quantiles: the charts of a row share a scale.
 * @param {Float32Array} kernels (l, site, tap, 5) @param {{layers: number, sites: number, taps: number}} sizes
 */
export function scales(kernels, { layers, sites, taps }) {
  const found = new Array(sites).fill(0);
  const each = taps * QUANTILES;
  for (let l = 0; l < layers; l += 1) {
    for (let s = 0; s < sites; s += 1) {
      for (let i = 0; i < each; i += 1) {
        const size = Math.abs(kernels[(l * sites + s) * each + i]);
        if (size > found[s]) found[s] = size; // NaN is not larger
      }
    }
  }
  return found;
}

/**
 * @param {{meta: any, kernels: Float32Array, signal: AbortSignal, onHover: (at: {layer: number, site: string, median: number[]} | null)
 *   => void, onChoose: (layer: number, site: string) => void}} options
 */
export function createKernels({ meta, kernels, signal, onHover, onChoose }) {
  const [layers, sites, taps] = [meta.layers.length, meta.sites.length, meta.kernel_taps];
  const tops = scales(kernels, { layers, sites, taps });
  const canvas = element("canvas", {
    class: "ink-canvas", tabindex: "0", role: "application", "aria-roledescription": "small multiples",
    "aria-label": `Kernels of ${sites} sites in ${layers} layers. Arrow keys move, Enter chooses one.`,
  });
  let cursor = [0, 0]; // site, layer
  let chosen = [-1, -1];
  /** @type {number[] | null} */ let hovered = null;
  let width = 640;
  const wide = () => Math.min(200, (width - LEFT) / layers);
  const at = (/** @type {number} */ s, /** @type {number} */ l, /** @type {number} */ tap, /** @type {number} */ q) =>
    kernels[((l * sites + s) * taps + tap) * QUANTILES + q];

  const draw = frame(() => {
    const context = fit(canvas, width, TOP + sites * (TALL + GAP) + 18);
    const colour = theme(canvas);
    const w = wide();
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillStyle = colour.muted;
    for (let l = 0; l < layers; l += Math.ceil(28 / w)) context.fillText(String(meta.layers[l]), LEFT + (l + 0.5) * w, 10);
    context.textAlign = "left";
    context.fillText("Layer", 0, 10);
    for (let s = 0; s < sites; s += 1) {
      const y = TOP + s * (TALL + GAP);
      context.fillStyle = colour.ink;
      context.fillText(meta.site_words[meta.sites[s]], 0, y + TALL / 2 - 8);
      context.fillStyle = colour.muted;
      context.fillText(`± ${tops[s].toFixed(2)}`, 0, y + TALL / 2 + 8);
      for (let l = 0; l < layers; l += 1) drawOne(context, s, l, LEFT + l * w, y, w, colour);
    }
    context.fillStyle = colour.muted;
    if (w >= 56) {
      context.textAlign = "center";
      for (let tap = 0; tap < taps; tap += 1) {
        context.fillText(tap ? `−${tap}` : "0", LEFT + 4 + ((taps - 1 - tap + 0.5) / taps) * (w - 8), TOP + sites * (TALL + GAP) + 6);
      }
      context.textAlign = "left";
      context.fillText("Tap", 0, TOP + sites * (TALL + GAP) + 6);
    }
    const marked = document.activeElement === canvas ? cursor : hovered;
    for (const [cell, ink, line] of /** @type {[number[] | null, string, number][]} */ ([[marked, colour.ink, 1.5], [chosen, colour.accent, 2]])) {
      if (!cell || cell[0] < 0) continue;
      context.strokeStyle = ink;
      context.lineWidth = line;
      context.strokeRect(LEFT + cell[1] * w + 1, TOP + cell[0] * (TALL + GAP) - 3, w - 2, TALL + 6);
    }
  });

  function drawOne(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ s, /** @type {number} */ l, /** @type {number} */ x0,
    /** @type {number} */ y0, /** @type {number} */ w, /** @type {any} */ colour) {
    if (Number.isNaN(at(s, l, 0, 2))) return;
    const pad = w >= 24 ? 4 : 1;
    const x = (/** @type {number} */ tap) => x0 + pad + ((taps - 1 - tap + 0.5) / taps) * (w - 2 * pad);
    const y = (/** @type {number} */ value) => y0 + (1 - value / (tops[s] || 1)) * 0.5 * TALL;
    context.fillStyle = colour.line;
    context.fillRect(x0 + pad, y(0) - 0.5, w - 2 * pad, 1);
    for (const [low, high, alpha] of [[0, 4, 0.18], [1, 3, 0.32]]) {
      context.fillStyle = colour.accent;
      context.globalAlpha = alpha;
      context.beginPath();
      for (let tap = 0; tap < taps; tap += 1) context.lineTo(x(tap), y(at(s, l, tap, high)));
      for (let tap = taps - 1; tap >= 0; tap -= 1) context.lineTo(x(tap), y(at(s, l, tap, low)));
      context.fill();
    }
    context.globalAlpha = 1;
    context.strokeStyle = colour.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let tap = 0; tap < taps; tap += 1) context.lineTo(x(tap), y(at(s, l, tap, 2)));
    context.stroke();
  }

  function cellAt(/** @type {MouseEvent} */ event) {
    const [s, l] = [Math.floor((event.offsetY - TOP + GAP / 2) / (TALL + GAP)), Math.floor((event.offsetX - LEFT) / wide())];
    return s >= 0 && s < sites && l >= 0 && l < layers ? [s, l] : null;
  }
  function tell(/** @type {number[] | null} */ cell) {
    onHover(cell && { layer: meta.layers[cell[1]], site: meta.sites[cell[0]], median: Array.from({ length: taps }, (_, tap) => at(cell[0], cell[1], tap, 2)) });
  }
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const cell = cellAt(event);
    if (String(cell) === String(hovered)) return;
    hovered = cell;
    tell(cell);
    draw();
  }, { signal });
  canvas.addEventListener("pointerleave", () => { hovered = null; tell(null); draw(); }, { signal });
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const cell = cellAt(event);
    if (cell) onChoose(meta.layers[cell[1]], meta.sites[cell[0]]);
  }, { signal });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => draw(), { signal });
  function move(/** @type {number} */ down, /** @type {number} */ right) {
    cursor = [Math.max(0, Math.min(sites - 1, cursor[0] + down)), Math.max(0, Math.min(layers - 1, cursor[1] + right))];
    tell(cursor);
    draw();
  }
  bindKeys(canvas, {
    left: () => move(0, -1), right: () => move(0, 1), up: () => move(-1, 0), down: () => move(1, 0), home: () => move(0, -layers),
    end: () => move(0, layers), choose: () => onChoose(meta.layers[cursor[1]], meta.sites[cursor[0]]),
  }, signal);
  return {
    el: canvas,
    draw,
    /** @param {number} layer @param {string} site */
    setChosen(layer, site) {
      chosen = [meta.sites.indexOf(site), meta.layers.indexOf(layer)];
      cursor = [Math.max(0, chosen[0]), Math.max(0, chosen[1])];
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
