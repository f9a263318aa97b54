// A picture under its patch grid, or a recording's waveform in frames, coloured by token: to point at, and to brush.
//
// What a colour means the caller says. A brush over patches is a rectangle: one range of tokens for each row of patches, or one alone
// where the rows are whole; a brush over frames is one range.

import { fit, frame, theme } from "./canvas.js";
import { element } from "./dom.js";
import { bindKeys } from "./keys.js";

const WAVE = 112;
const AXIS = 18;
export const TOKENS_PER_S = 20;

/**
 * Ranges of tokens under a rectangle of patches, touching ones joined.
 * @param {number[]} a row and column of a corner @param {number[]} b of the opposite one @param {number} cols of the grid
 * @param {number} start first token of the picture @returns {number[][]}
 */
export function rangesUnder(a, b, cols, start) {
  const [r0, r1, c0, c1] = [Math.min(a[0], b[0]), Math.max(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[1], b[1])];
  if (c0 === 0 && c1 === cols - 1) return [[start + r0 * cols, start + (r1 + 1) * cols]];
  return Array.from({ length: r1 - r0 + 1 }, (_, i) => [start + (r0 + i) * cols + c0, start + (r0 + i) * cols + c1 + 1]);
}

/** @param {Uint8Array} bytes a PNG */
export async function pictureOf(bytes) {
  const url = URL.createObjectURL(new Blob([/** @type {any} */ (bytes)], { type: "image/png" }));
  try {
    const picture = new Image();
    picture.src = url;
    await picture.decode();
    return picture;
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Where in a medium a token lies, in words. @param {any} medium kind, cols, rows @param {number} at counted from its first token */
export function placeIn(medium, at) {
  return medium.kind === "audio" ? `${(at / TOKENS_PER_S).toFixed(2)} to ${((at + 1) / TOKENS_PER_S).toFixed(2)} s`
    : `patch row ${Math.floor(at / medium.cols) + 1} of ${medium.rows}, column ${(at % medium.cols) + 1}`;
}

/**
 * @param {{signal: AbortSignal, onHover: (at: number | null) => void, onBrush: (ranges: number[][]) => void, region?: boolean}} options
 *   `at` is counted from the medium's first token; without `region` a brush over patches takes the one under the pointer
 */
export function createMedia({ signal, onHover, onBrush, region = false }) {
  const canvas = element("canvas", { class: "ink-canvas ink-medium", tabindex: "0", role: "application", "aria-roledescription": "picture or recording" });
  /** @type {any} kind, label, start, tokens, rows, cols, picture, peaks, colour(at), say */ let shown = null;
  let width = 480;
  /** @type {number[][]} */ let selection = [];
  /** @type {number | null} */ let marked = null;
  let cursor = 0;
  /** @type {number | null} */ let anchor = null;
  /** @type {number | null} */ let pressed = null;

  const cellOf = (/** @type {number} */ at) => (shown.kind === "audio" ? [0, at] : [Math.floor(at / shown.cols), at % shown.cols]);
  const grid = () => (shown.kind === "audio" ? [1, shown.tokens] : [shown.rows, shown.cols]);
  const tall = () => canvas.clientHeight - (shown.kind === "audio" ? AXIS : 0);
  const inside = (/** @type {number} */ at) => selection.some(([from, to]) => shown.start + at >= from && shown.start + at < to);
  const size = () => {
    if (shown.kind === "audio") return [width, WAVE];
    const ratio = shown.picture ? shown.picture.naturalHeight / shown.picture.naturalWidth : shown.rows / shown.cols;
    const wide = Math.min(width, 420, 360 / ratio);
    return [wide, wide * ratio];
  };
  const brush = (/** @type {number} */ from, /** @type {number} */ to) => {
    if (shown.kind !== "audio" && !region) return [[shown.start + to, shown.start + to + 1]];
    return rangesUnder(cellOf(from), cellOf(to), grid()[1], shown.start);
  };

  const draw = frame(() => {
    if (!shown || canvas.hidden) return;
    const [wide, high] = size();
    const context = fit(canvas, wide, high);
    const colour = theme(canvas);
    if (shown.kind === "audio") drawWave(context, wide, high - AXIS, colour);
    else drawPicture(context, wide, high, colour);
    drawMarks(context, wide, shown.kind === "audio" ? high - AXIS : high, colour);
  });
  function cells(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ wide, /** @type {number} */ high) {
    const [rows, cols] = grid();
    for (let at = 0; at < shown.tokens; at += 1) {
      const [row, col] = cellOf(at);
      context.fillStyle = shown.colour(at);
      context.fillRect((col * wide) / cols, (row * high) / rows, wide / cols + 0.5, high / rows + 0.5);
    }
  }
  function drawPicture(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ wide, /** @type {number} */ high, /** @type {any} */ colour) {
    const { rows, cols, picture } = shown;
    context.imageSmoothingEnabled = true;
    if (picture) {
      context.drawImage(picture, 0, 0, wide, high);
      context.fillStyle = "rgb(255 255 255 / 0.35)"; // so that colour reads on any picture
      context.fillRect(0, 0, wide, high);
    }
    cells(context, wide, high);
    if (wide / cols < 6) return;
    context.strokeStyle = picture ? "rgb(0 0 0 / 0.15)" : colour.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let col = 0; col <= cols; col += 1) { context.moveTo((col * wide) / cols, 0); context.lineTo((col * wide) / cols, high); }
    for (let row = 0; row <= rows; row += 1) { context.moveTo(0, (row * high) / rows); context.lineTo(wide, (row * high) / rows); }
    context.stroke();
  }
  function drawWave(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ wide, /** @type {number} */ high, /** @type {any} */ colour) {
    cells(context, wide, high);
    context.fillStyle = colour.ink;
    const { peaks } = shown;
    const columns = peaks ? peaks.length / 2 : 0;
    const y = (/** @type {number} */ value) => ((1 - value) / 2) * high;
    for (let i = 0; i < columns; i += 1) {
      const [low, top] = [peaks[i], peaks[columns + i]];
      context.fillRect((i * wide) / columns, y(top), Math.max(0.75, wide / columns - 0.25), Math.max(1, y(low) - y(top)));
    }
    context.font = `11px ${colour.font}`;
    context.fillStyle = colour.muted;
    context.textBaseline = "middle";
    const seconds = shown.tokens / TOKENS_PER_S;
    for (let s = 0; s <= 4; s += 1) {
      context.textAlign = s === 0 ? "left" : s === 4 ? "right" : "center";
      context.fillText(`${((seconds * s) / 4).toFixed(1)} s`, (wide * s) / 4, high + 11);
    }
  }
  /** The selection's outline, and the token that is pointed at here or elsewhere. */
  function drawMarks(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ wide, /** @type {number} */ high, /** @type {any} */ colour) {
    const [rows, cols] = grid();
    const [w, h] = [wide / cols, high / rows];
    const edge = (/** @type {number} */ x0, /** @type {number} */ y0, /** @type {number} */ x1, /** @type {number} */ y1) => { context.moveTo(x0, y0); context.lineTo(x1, y1); };
    for (const [ink, line] of /** @type {[string, number][]} */ ([[colour.ground, 4.5], [colour.accent, 2.5]])) { // readable on any picture
      context.strokeStyle = ink;
      context.lineWidth = line;
      context.beginPath();
      for (let at = 0; at < shown.tokens && selection.length; at += 1) {
        if (!inside(at)) continue;
        const [row, col] = cellOf(at);
        const [x, y] = [col * w, row * h];
        if (col === 0 || !inside(at - 1)) edge(x, y, x, y + h);
        if (col === cols - 1 || !inside(at + 1)) edge(x + w, y, x + w, y + h);
        if (row === 0 || !inside(at - cols)) edge(x, y, x + w, y);
        if (row === rows - 1 || !inside(at + cols)) edge(x, y + h, x + w, y + h);
      }
      context.stroke();
    }
    const at = document.activeElement === canvas ? cursor : marked;
    if (at == null || at < 0 || at >= shown.tokens) return;
    const [row, col] = cellOf(at);
    context.strokeStyle = colour.ink;
    context.lineWidth = 1.5;
    context.strokeRect(col * w, row * h, Math.max(w, 2), h);
  }

  function tokenAt(/** @type {MouseEvent} */ event) {
    const [rows, cols] = grid();
    const [row, col] = [Math.floor((event.offsetY / tall()) * rows), Math.floor((event.offsetX / canvas.clientWidth) * cols)];
    return Math.max(0, Math.min(shown.tokens - 1, Math.max(0, Math.min(rows - 1, row)) * cols + Math.max(0, Math.min(cols - 1, col))));
  }
  canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    if (!shown || event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pressed = tokenAt(event);
  }, { signal });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!shown) return;
    const at = tokenAt(event);
    if (pressed != null) selection = brush(pressed, at);
    marked = at;
    onHover(at);
    draw();
  }, { signal });
  canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
    if (!shown || pressed == null) return;
    const [from, to] = [pressed, tokenAt(event)];
    [pressed, cursor, selection] = [null, to, brush(from, to)];
    onBrush(selection);
    draw();
  }, { signal });
  canvas.addEventListener("pointerleave", () => {
    marked = null;
    onHover(null);
    draw();
  }, { signal });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, draw, { signal });
  function move(/** @type {number} */ down, /** @type {number} */ right, /** @type {boolean} */ extend) {
    if (!shown) return;
    const [rows, cols] = grid();
    const from = cursor;
    const [row, col] = cellOf(cursor);
    cursor = Math.min(shown.tokens - 1, Math.max(0, Math.min(rows - 1, row + down)) * cols + Math.max(0, Math.min(cols - 1, col + right)));
    if (extend) {
      anchor ??= from;
      selection = brush(anchor, cursor);
      onBrush(selection);
    } else anchor = null;
    onHover(cursor);
    draw();
  }
  bindKeys(canvas, {
    left: (extend) => move(0, -1, extend), right: (extend) => move(0, 1, extend), up: (extend) => move(-1, 0, extend), down: (extend) => move(1, 0, extend),
    home: (extend) => move(0, -1e9, extend), end: (extend) => move(0, 1e9, extend), pageUp: (extend) => move(0, -TOKENS_PER_S, extend),
    pageDown: (extend) => move(0, TOKENS_PER_S, extend), choose: () => shown && onBrush(brush(cursor, cursor)), leave: () => onBrush([]),
  }, signal);

  return {
    el: canvas,
    draw,
    /** @param {any} given null hides it */
    show(given) {
      if (given?.start !== shown?.start) cursor = 0;
      [shown, canvas.hidden] = [given, !given];
      if (!given) return;
      canvas.setAttribute("aria-label", `${given.label}: ${given.say}. Arrow keys move, Shift extends, Enter chooses, Escape lets go.`);
      draw();
    },
    /** @param {number[][]} ranges of the whole context's tokens */
    setSelection(ranges) {
      selection = ranges;
      draw();
    },
    /** @param {number | null} t of the whole context's tokens: pointed at elsewhere */
    setMarked(t) {
      marked = t == null || !shown ? null : t - shown.start;
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
