// All tokens from left to right, one row per layer (or lane), at any zoom: what a bucket of tokens holds, which part it belongs to.
//
// What a row is, `meta` says: `layers` are the rows' labels, `row_word` what one is called, `row_px` its height if it is a fixed one.
// Pictures are placed by token, so a strip that was fetched for another window is drawn stretched until the right one arrives.

import { fit, frame, paint, rgb, theme } from "./canvas.js";
import { element } from "./dom.js";
import { count } from "./format.js";
import { bindKeys } from "./keys.js";
import { bandsOf, niceStep } from "./bands.js";

const LEFT = 52;
const RIGHT = 12;
const LABELS = 18; // part names
const BAND = 8; // modality colour
const AXIS = 20;
const MAP = 6; // where the window lies in the whole
const TOP = LABELS + BAND + 4;

/**
 * @param {{meta: any, palette: Uint8Array, signal: AbortSignal, onHover: (at: {t: number, stop: number, row: number} | null) => void,
 *   onSelect: (range: number[] | null) => void, onWindow: (range: number[]) => void}} options
 */
export function createStrip({ meta, palette, signal, onHover, onSelect, onWindow }) {
  const canvas = element("canvas", {
    class: "ink-canvas", tabindex: "0", role: "application", "aria-roledescription": "token strip",
    "aria-label": `${count(meta.tokens)} tokens. Left and right move, up and down change the ${meta.row_word ?? "layer"}, Shift extends, Enter selects, ` +
      "plus and minus zoom, zero shows all, Escape lets go.",
  });
  const bands = bandsOf(meta.spans);
  let view = [0, meta.tokens];
  /** @type {number[] | null} */ let selection = null;
  /** @type {any[]} */ let layers = []; // pictures to draw, coarsest first: {start, width, buckets, rows, picture, texts}
  let row = 0;
  let cursor = 0;
  /** @type {number | null} */ let hovered = null;
  /** @type {number | null} */ let anchor = null;
  let width = 640;
  let marked = -1; // row of the chosen expert's layer
  let single = ""; // label of a strip with one row

  const plot = () => Math.max(1, width - LEFT - RIGHT);
  const rowsShown = () => (layers.length ? layers[layers.length - 1].rows : meta.layers.length);
  const rowHeight = () => meta.row_px ?? (rowsShown() === 1 ? 40 : Math.max(3, Math.min(18, Math.floor(180 / meta.layers.length))));
  const bottom = () => TOP + rowsShown() * rowHeight();
  const x = (/** @type {number} */ t) => LEFT + ((t - view[0]) / (view[1] - view[0])) * plot();
  const tokenAt = (/** @type {number} */ px) =>
    Math.max(view[0], Math.min(view[1] - 1, Math.floor(view[0] + ((px - LEFT) / plot()) * (view[1] - view[0]))));
  const bucketTokens = () => Math.max(1, Math.ceil((view[1] - view[0]) / plot()));
  const bucketOf = (/** @type {number} */ t) => {
    const wide = bucketTokens();
    const start = t - (t % wide);
    return [start, Math.min(start + wide, meta.tokens)];
  };

  const draw = frame(() => {
    const h = rowHeight();
    const context = fit(canvas, width, bottom() + AXIS + MAP + 4);
    const colour = theme(canvas);
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, plot(), bottom() + AXIS);
    context.clip();
    drawBands(context, colour);
    for (const item of layers) {
      const [from, to] = [x(item.start), x(item.start + item.width * item.buckets)];
      context.drawImage(item.picture, 0, 0, item.buckets, item.rows, from, TOP, to - from, rowsShown() * h);
    }
    drawSelection(context, colour);
    context.restore();
    drawAxis(context, colour);
    drawRows(context, h, colour);
  });

  function drawBands(/** @type {CanvasRenderingContext2D} */ context, /** @type {any} */ colour) {
    for (const band of bands) {
      const [from, to] = [x(band.start), x(band.stop)];
      if (to < LEFT || from > width) continue;
      context.fillStyle = meta.modalities[band.modality] ?? colour.line;
      context.fillRect(from, LABELS, Math.max(to - from - 1, 0.75), BAND);
      const [left, room] = [Math.max(from, LEFT), Math.min(to, width - RIGHT) - Math.max(from, LEFT)];
      if (room < 28 || band.modality === "framing") continue;
      context.fillStyle = colour.muted;
      context.textAlign = "left";
      context.fillText(shortened(context, band.label, room - 8), left, LABELS / 2);
    }
  }

  function shortened(/** @type {CanvasRenderingContext2D} */ context, /** @type {string} */ text, /** @type {number} */ room) {
    if (context.measureText(text).width <= room) return text;
    let end = text.length;
    while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
    return end > 1 ? `${text.slice(0, end)}…` : "";
  }

  function drawSelection(/** @type {CanvasRenderingContext2D} */ context, /** @type {any} */ colour) {
    if (selection) {
      const [from, to] = [x(selection[0]), Math.max(x(selection[1]), x(selection[0]) + 2)];
      context.fillStyle = colour.ground;
      context.globalAlpha = 0.55;
      context.fillRect(LEFT, TOP, from - LEFT, bottom() - TOP);
      context.fillRect(to, TOP, width - RIGHT - to, bottom() - TOP);
      context.globalAlpha = 1;
      context.strokeStyle = colour.accent;
      context.lineWidth = 2;
      context.strokeRect(from, TOP - 1, to - from, bottom() - TOP + 2);
    }
    const at = document.activeElement === canvas ? cursor : hovered;
    if (at == null) return;
    const [from, to] = bucketOf(at);
    context.strokeStyle = colour.ink;
    context.lineWidth = 1.5;
    context.strokeRect(x(from) - 0.5, LABELS - 1, Math.max(x(to) - x(from), 2) + 1, bottom() - LABELS + 2);
  }

  function drawAxis(/** @type {CanvasRenderingContext2D} */ context, /** @type {any} */ colour) {
    const y = bottom();
    context.fillStyle = colour.muted;
    const top = layers[layers.length - 1];
    const each = plot() / (view[1] - view[0]);
    if (top?.texts && each >= 34) { // room for the tokens themselves
      context.textAlign = "center";
      top.texts.forEach((/** @type {string} */ text, /** @type {number} */ i) => {
        const t = top.start + i;
        if (t >= view[0] && t < view[1]) context.fillText(shortened(context, text, each - 4), x(t + 0.5), y + 12);
      });
    } else {
      const step = niceStep((view[1] - view[0]) / Math.max(2, plot() / 110));
      context.textAlign = "center";
      for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) {
        const at = x(t);
        context.fillRect(at, y, 1, 4);
        if (at < width - 24) context.fillText(count(t), Math.max(at, LEFT + 4), y + 12);
      }
      context.textAlign = "right";
      context.fillText("Token", LEFT - 8, y + 12);
    }
    if (view[1] - view[0] >= meta.tokens) return;
    context.fillStyle = colour.line;
    context.fillRect(LEFT, y + AXIS + 2, plot(), MAP - 2);
    context.fillStyle = colour.accent;
    const from = LEFT + (view[0] / meta.tokens) * plot();
    context.fillRect(from, y + AXIS + 1, Math.max(4, ((view[1] - view[0]) / meta.tokens) * plot()), MAP);
  }

  function drawRows(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ h, /** @type {any} */ colour) {
    context.textAlign = "right";
    context.fillStyle = colour.muted;
    if (rowsShown() === 1) {
      context.fillText(single, LEFT - 8, TOP + h / 2);
      return;
    }
    const step = Math.ceil(12 / h);
    for (let l = 0; l < meta.layers.length; l += step) {
      context.fillStyle = l === marked ? colour.accent : colour.muted;
      context.fillText(String(meta.layers[l]), LEFT - 6, TOP + (l + 0.5) * h);
    }
  }

  /** Move the window; keeps it inside the context and at least one token wide. */
  function setView(/** @type {number} */ from, /** @type {number} */ to, quiet = false) {
    const long = Math.max(1, Math.min(meta.tokens, Math.round(to - from)));
    const start = Math.max(0, Math.min(meta.tokens - long, Math.round(from)));
    view = [start, start + long];
    if (!quiet) onWindow(view);
    draw();
  }

  function zoom(/** @type {number} */ factor, /** @type {number} */ around) {
    const long = Math.max(1, (view[1] - view[0]) * factor);
    const share = (around + 0.5 - view[0]) / (view[1] - view[0]);
    setView(around + 0.5 - share * long, around + 0.5 - share * long + long);
  }

  function hover(/** @type {number} */ t) {
    const [start, stop] = bucketOf(t);
    onHover({ t: start, stop, row });
    draw();
  }

  function select(/** @type {number[] | null} */ range) {
    selection = range;
    onSelect(range);
    draw();
  }

  // Pointer: hover reads, a press selects a bucket or a part, a drag selects a range, Ctrl + wheel (or a pinch) zooms.
  let pressed = /** @type {{t: number, moved: boolean} | null} */ (null);
  canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    if (event.button !== 0 || event.offsetX < LEFT) return;
    canvas.setPointerCapture(event.pointerId);
    pressed = { t: tokenAt(event.offsetX), moved: false };
  }, { signal });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const t = tokenAt(event.offsetX);
    hovered = t;
    row = Math.max(0, Math.min(meta.layers.length - 1, Math.floor((event.offsetY - TOP) / rowHeight())));
    if (pressed && (pressed.moved || bucketOf(t)[0] !== bucketOf(pressed.t)[0])) {
      pressed.moved = true;
      selection = [bucketOf(Math.min(t, pressed.t))[0], bucketOf(Math.max(t, pressed.t))[1]];
    }
    hover(t);
  }, { signal });
  canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
    if (!pressed) return;
    const { t, moved } = pressed;
    pressed = null;
    cursor = t;
    if (moved) return select(selection);
    const band = event.offsetY < TOP ? bands.find((item) => t >= item.start && t < item.stop) : null;
    return select(band ? [band.start, band.stop] : bucketOf(t));
  }, { signal });
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    onHover(null);
    draw();
  }, { signal });
  canvas.addEventListener("dblclick", () => selection && setView(selection[0], selection[1]), { signal });
  canvas.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !(sideways && view[1] - view[0] < meta.tokens)) return;
    event.preventDefault();
    if (sideways) {
      const by = (event.deltaX / plot()) * (view[1] - view[0]);
      setView(view[0] + by, view[1] + by);
    } else zoom(1.0015 ** event.deltaY, tokenAt(event.offsetX));
  }, { signal, passive: false });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => draw(), { signal });

  function move(/** @type {number} */ t, /** @type {boolean} */ extend) {
    const from = cursor;
    cursor = Math.max(0, Math.min(meta.tokens - 1, t));
    if (extend) {
      anchor ??= from;
      select([bucketOf(Math.min(anchor, cursor))[0], bucketOf(Math.max(anchor, cursor))[1]]);
    } else anchor = null;
    const long = view[1] - view[0];
    if (cursor < view[0]) setView(cursor, cursor + long);
    if (cursor >= view[1]) setView(cursor - long + 1, cursor + 1);
    hover(cursor);
  }
  function changeRow(/** @type {number} */ by) {
    row = Math.max(0, Math.min(meta.layers.length - 1, row + by));
    hover(cursor);
  }
  bindKeys(canvas, {
    left: (extend) => move(cursor - bucketTokens(), extend), right: (extend) => move(cursor + bucketTokens(), extend),
    home: (extend) => move(0, extend), end: (extend) => move(meta.tokens - 1, extend),
    pageUp: (extend) => move(cursor - (view[1] - view[0]), extend), pageDown: (extend) => move(cursor + (view[1] - view[0]), extend),
    up: () => changeRow(-1), down: () => changeRow(1),
    zoomIn: () => zoom(0.5, cursor), zoomOut: () => zoom(2, cursor), zoomAll: () => setView(0, meta.tokens),
    choose: () => select(bucketOf(cursor)), leave: () => select(null),
  }, signal);

  return {
    el: canvas,
    draw,
    setView,
    zoom: (/** @type {number} */ factor) => zoom(factor, selection ? (selection[0] + selection[1]) >> 1 : (view[0] + view[1]) >> 1),
    view: () => view,
    buckets: () => Math.max(16, Math.min(1_536, Math.floor(plot()))),
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
    /** @param {number[] | null} range */
    setSelection(range) {
      selection = range;
      draw();
    },
    /** @param {number} l row of the chosen expert's layer, or -1 @param {string} label of a strip with one row */
    setMarked(l, label) {
      [marked, single] = [l, label];
      draw();
    },
    /** Pointed at elsewhere. @param {number | null} t */
    setHovered(t) {
      hovered = t;
      draw();
    },
    /** Replace the pictures: the overview below, the window's own above it. @param {any[]} strips @param {Uint8Array} [by] palette */
    setStrips(strips, by = palette) {
      layers = strips.filter(Boolean).map((strip) => ({ ...strip, picture: paint(strip.values, strip.rows, strip.buckets, by, rgb(meta.missing)) }));
      draw();
    },
  };
}
