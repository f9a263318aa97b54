// Rows × columns of one quantity, to look at and choose from: layers × heads, or layers × experts. Knows neither.

import { fit, frame, paint, rgb, theme } from "./canvas.js";
import { element } from "./dom.js";
import { bindKeys } from "./keys.js";

const LEFT = 52; // room for the rows' labels
const TOP = 36;
const MAX_CELL = 56;

/**
 * @typedef {{room: (width: number) => number, draw: (context: CanvasRenderingContext2D, left: number, top: number, rowHeight: number,
 *   colour: any) => void}} Beside what stands to the right of the cells: the room it takes, and how it is drawn
 *
 * @param {{rows: (string | number)[], cols: (string | number)[], title: string, label: string, palette: Uint8Array, missing: string,
 *   strong?: Set<string | number>, beside?: Beside, signal: AbortSignal, onHover: (cell: number[] | null) => void,
 *   onChoose: (cell: number[] | null) => void}} options a cell is [row, column], both counted from 0; `strong` rows are set in ink;
 *   choosing what is chosen lets it go
 */
export function createMatrix({ rows, cols, title, label, palette, missing, strong, beside, signal, onHover, onChoose }) {
  const canvas = element("canvas", {
    class: "ink-canvas", tabindex: "0", role: "application", "aria-roledescription": "heat map",
    "aria-label": `${label}. Arrow keys move, Enter chooses, Escape lets go.`,
  });
  /** @type {Float32Array} */ let values = new Float32Array(rows.length * cols.length);
  let [low, high] = [0, 1];
  /** @type {HTMLCanvasElement | undefined} */ let picture;
  /** @type {number[] | null} */ let chosen = null;
  /** @type {number[] | null} */ let hovered = null;
  let cursor = [0, 0];
  let width = 640;

  const cellHeight = () => Math.max(4, Math.min(22, Math.floor(264 / rows.length)));
  const cellWidth = () => Math.min(MAX_CELL, (width - LEFT - (beside?.room(width) ?? 2)) / cols.length);

  const draw = frame(() => {
    const [h, w] = [cellHeight(), cellWidth()];
    const context = fit(canvas, width, TOP + rows.length * h + 2);
    const colour = theme(canvas);
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colour.muted;
    context.fillText(title, LEFT, 9);
    context.textAlign = "center";
    const step = [1, 2, 4, 8, 16, 32, 64, 128].find((n) => n * w >= 26) ?? 256;
    for (let c = 0; c < cols.length; c += step) context.fillText(String(cols[c]), LEFT + (c + 0.5) * w, 26);
    context.textAlign = "right";
    context.fillText("Layer", LEFT - 8, 26);
    const each = Math.ceil(12 / h);
    for (let r = 0; r < rows.length; r += each) {
      context.fillStyle = strong?.has(rows[r]) ? colour.ink : colour.muted;
      context.fillText(String(rows[r]), LEFT - 8, TOP + (r + 0.5) * h);
    }
    if (picture) context.drawImage(picture, LEFT, TOP, cols.length * w, rows.length * h);
    if (w >= 10 && h >= 10) {
      context.fillStyle = colour.ground;
      for (let c = 1; c < cols.length; c += 1) context.fillRect(LEFT + c * w - 0.5, TOP, 1, rows.length * h);
      for (let r = 1; r < rows.length; r += 1) context.fillRect(LEFT, TOP + r * h - 0.5, cols.length * w, 1);
    }
    beside?.draw(context, LEFT + cols.length * w, TOP, h, colour);
    const marked = document.activeElement === canvas ? cursor : hovered;
    if (marked) outline(context, marked, w, h, colour.ink, 1.5);
    if (chosen) outline(context, chosen, w, h, colour.accent, 3);
  });

  /** A whole row where the column is negative. */
  function outline(/** @type {CanvasRenderingContext2D} */ context, /** @type {number[]} */ [r, c], /** @type {number} */ w,
    /** @type {number} */ h, /** @type {string} */ colour, /** @type {number} */ line) {
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(LEFT + Math.max(0, c) * w, TOP + r * h, c < 0 ? cols.length * w : Math.max(w, 3), h);
  }

  function cellAt(/** @type {PointerEvent | MouseEvent} */ event) {
    const [r, c] = [Math.floor((event.offsetY - TOP) / cellHeight()), Math.floor((event.offsetX - LEFT) / cellWidth())];
    return r >= 0 && r < rows.length && c >= 0 && c < cols.length ? [r, c] : null;
  }
  function move(/** @type {number} */ down, /** @type {number} */ right) {
    const [r, c] = [Math.max(0, Math.min(rows.length - 1, cursor[0] + down)), Math.max(0, Math.min(cols.length - 1, cursor[1] + right))];
    cursor = [r, c];
    onHover(cursor);
    draw();
  }
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const cell = cellAt(event);
    canvas.style.cursor = cell ? "pointer" : "default";
    if (String(cell) === String(hovered)) return;
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
    choose();
  }, { signal });
  const choose = () => onChoose(String(cursor) === String(chosen) ? null : [...cursor]);
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => draw(), { signal });
  bindKeys(canvas, {
    left: () => move(0, -1), right: () => move(0, 1), up: () => move(-1, 0), down: () => move(1, 0),
    home: () => move(0, -cols.length), end: () => move(0, cols.length), pageUp: () => move(-8, 0), pageDown: () => move(8, 0),
    choose, leave: () => onChoose(null),
  }, signal);

  return {
    el: canvas,
    draw,
    value: (/** @type {number} */ r, /** @type {number} */ c) => values[r * cols.length + c],
    /** @param {Float32Array} given row by row @param {number} from @param {number} to ends of the colour scale @param {Uint8Array} [by] palette */
    setValues(given, from, to, by = palette) {
      [values, low, high] = [given, from, to];
      const scaled = Uint8Array.from(values, (value) =>
        (Number.isNaN(value) ? 255 : Math.round(Math.max(0, Math.min(1, (value - low) / (high - low || 1))) * 254)));
      picture = paint(scaled, rows.length, cols.length, by, rgb(missing), picture);
      draw();
    },
    /** @param {number[] | null} cell a negative column marks the row */
    setChosen(cell) {
      chosen = cell;
      if (cell) cursor = [cell[0], Math.max(0, cell[1])];
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
