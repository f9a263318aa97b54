// The whole window as one bar: every entry by modality, what is cached in full colour and what is to compute hatched, what is kept for
// the answer, and what is left.

import { fit, frame, theme } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";
import { count, percent } from "../_shared/format.js";

const [LABELS, TALL, AXIS] = [18, 32, 20];

/**
 * Pieces of the bar in tokens: sections cut where modality or cache ends. Pure.
 * @param {any[]} sections with start, stop, runs of [modality, tokens] @param {number | null} cached leading tokens; null: not known
 * @returns {{start: number, stop: number, modality: string, label: string, cached: boolean}[]}
 */
export function piecesOf(sections, cached) {
  /** @type {any[]} */ const found = [];
  let at = 0;
  const put = (/** @type {number} */ start, /** @type {number} */ stop, /** @type {string} */ modality, /** @type {string} */ label) => {
    const edge = cached == null ? start : Math.max(start, Math.min(stop, cached));
    if (edge > start) found.push({ start, stop: edge, modality, label, cached: true });
    if (stop > edge) found.push({ start: edge, stop, modality, label, cached: false });
  };
  for (const section of sections) {
    if (section.start > at) put(at, section.start, "framing", "framing");
    let from = section.start;
    for (const [modality, tokens] of section.runs) {
      put(from, from + tokens, modality, section.label);
      from += tokens;
    }
    at = section.stop;
  }
  return found;
}

/** @param {{signal: AbortSignal, onHover: (words: string | null) => void}} options */
export function createWindow({ signal, onHover }) {
  const canvas = element("canvas", { class: "ink-canvas", role: "img" });
  /** @type {any} */ let state = null;
  /** @type {any[]} */ let pieces = [];
  let width = 640;
  let span = 1; // tokens across: the limit, or less of it while the context is small
  const x = (/** @type {number} */ t) => (t / span) * width;

  const draw = frame(() => {
    const context = fit(canvas, width, LABELS + TALL + AXIS);
    if (!state) return;
    const colour = theme(canvas);
    const { totals, modalities } = state;
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colour.muted;
    for (const section of state.sections) label(context, section);
    context.translate(0, LABELS);
    context.fillStyle = colour.line;
    context.globalAlpha = 0.35;
    context.fillRect(0, 0, width, TALL);
    context.globalAlpha = 1;
    for (const piece of pieces) {
      const [from, wide] = [x(piece.start), Math.max(0.5, x(piece.stop) - x(piece.start))];
      context.fillStyle = modalities[piece.modality];
      context.fillRect(from, 0, wide, TALL);
      if (!piece.cached && totals.cached_tokens != null) hatch(context, from, wide, colour.ground);
    }
    context.fillStyle = colour.ground;
    for (const section of state.sections) if (x(section.stop - section.start) > 3) context.fillRect(x(section.stop) - 0.5, 0, 1, TALL);
    const [prompt, kept] = [x(totals.prompt_tokens), x(totals.reserved_tokens)];
    context.strokeStyle = totals.left_tokens < 0 ? "#d55e00" : colour.muted;
    context.setLineDash([3, 2]);
    context.strokeRect(Math.min(prompt, width - 1) + 0.5, 0.5, Math.max(1, Math.min(kept, width - prompt - 1)), TALL - 1);
    context.setLineDash([]);
    context.fillStyle = colour.muted;
    context.textAlign = "left";
    context.fillText("0", 0, TALL + 11);
    context.textAlign = "right";
    const whole = span >= totals.limit_tokens;
    context.fillText(whole ? `${count(totals.limit_tokens)} tokens` : `${count(span)} of ${count(totals.limit_tokens)} tokens shown`, width, TALL + 11);
    context.textAlign = "center";
    if (prompt > 60 && prompt < width - 220) context.fillText(count(totals.prompt_tokens), prompt, TALL + 11);
  });
  function label(/** @type {CanvasRenderingContext2D} */ context, /** @type {any} */ section) {
    const room = x(section.stop - section.start) - 6;
    if (room < 24) return;
    let text = section.label;
    while (text.length > 1 && context.measureText(text).width > room) text = `${text.slice(0, -2).trimEnd()}…`;
    if (text.length > 2) context.fillText(text, x(section.start), LABELS / 2);
  }
  function hatch(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ from, /** @type {number} */ wide, /** @type {string} */ ground) {
    if (wide < 2) return;
    context.save();
    context.beginPath();
    context.rect(from, 0, wide, TALL);
    context.clip();
    context.strokeStyle = ground;
    context.globalAlpha = 0.55;
    context.lineWidth = 2;
    context.beginPath();
    for (let at = Math.floor((from - TALL) / 7) * 7; at < from + wide; at += 7) { context.moveTo(at, TALL); context.lineTo(at + TALL, 0); }
    context.stroke();
    context.restore();
  }
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!state) return;
    const t = (event.offsetX / width) * span;
    const piece = pieces.find((item) => t >= item.start && t < item.stop);
    const { totals } = state;
    if (piece) {
      const how = totals.cached_tokens == null ? "" : piece.cached ? ", cached" : ", to compute";
      const section = state.sections.find((/** @type {any} */ item) => t >= item.start && t < item.stop);
      const size = section ? `${count(section.stop - section.start)} tokens` : "";
      return onHover(`${piece.label}: ${[size, piece.modality].filter(Boolean).join(", ")}${how}`);
    }
    if (t < totals.prompt_tokens + totals.reserved_tokens) return onHover(`${count(totals.reserved_tokens)} tokens kept for the answer`);
    return onHover(`${count(Math.max(0, totals.left_tokens))} tokens left`);
  }, { signal });
  canvas.addEventListener("pointerleave", () => onHover(null), { signal });
  return {
    el: canvas,
    draw,
    /** @param {any} given */
    set(given) {
      state = given;
      const { totals } = state;
      pieces = piecesOf(state.sections, totals.cached_tokens);
      // A small context in a window of a million would be a hair: then the bar shows a round part of the window.
      const used = totals.prompt_tokens + totals.reserved_tokens;
      span = totals.limit_tokens;
      while (span > used * 4 && span > 1024) span = Math.ceil(span / 2);
      span = Math.max(span, used);
      const kinds = Object.entries(totals.by_modality).filter(([, tokens]) => tokens).map(([name, tokens]) => `${name} ${count(/** @type {number} */ (tokens))}`);
      canvas.setAttribute("aria-label", `Window of ${count(totals.limit_tokens)} tokens: ${kinds.join(", ")}; ${count(totals.reserved_tokens)} kept for the answer, ` +
        `${count(Math.max(0, totals.left_tokens))} left (${percent(Math.max(0, totals.left_tokens) / totals.limit_tokens)})`);
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
