// What the chosen entry looks like: a picture under its patch grid, a waveform with a tick per token, a page, a beginning.

import { asFloat32 } from "../_shared/bytes.js";
import { fit, theme } from "../_shared/canvas.js";
import { button, element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";

/** @param {{signal: AbortSignal, onPage: (page: number) => void}} options */
export function createPreviews({ signal, onPage }) {
  const title = element("p", { class: "ink-title" });
  const facts = element("p", { class: "ink-facts" });
  const canvas = element("canvas", { class: "ink-canvas", role: "img" });
  const text = element("p", { class: "ink-excerpt", tabindex: "0" });
  const place = element("span", { class: "ink-facts", "aria-live": "polite" });
  const [back, on] = [button("‹", "The page before", () => onPage(shown.page - 1), signal), button("›", "The next page", () => onPage(shown.page + 1), signal)];
  const pager = element("div", { class: "ink-row" }, [back, place, on]);
  const empty = element("p", { class: "ink-facts ink-empty", text: "Choose an entry to see what the model is given." });
  const box = element("div", { hidden: true }, [title, facts, pager, canvas, text]);
  const el = element("section", { class: "ink-preview", "aria-label": "Preview" }, [empty, box]);
  /** @type {any} */ let shown = null;
  /** @type {HTMLImageElement | null} */ let picture = null;
  let width = 400;

  function factsOf(/** @type {any} */ item) {
    if (item.kind === "image") return `${count(item.width_px)} × ${count(item.height_px)} px · ${item.rows} × ${item.cols} patches, ${count(item.tokens)} tokens`;
    if (item.kind === "audio") return `${item.seconds.toFixed(2)} s from ${item.start_s.toFixed(2)} s · ${count(item.tokens)} tokens of 50 ms`;
    return `${count(item.characters)} characters${item.cut ? ", the beginning" : ""}`;
  }
  function draw() {
    if (!shown) return;
    if (picture) drawPicture(picture);
    else if (shown.kind === "audio") drawWave();
  }
  function drawPicture(/** @type {HTMLImageElement} */ image) {
    const ratio = image.naturalHeight / image.naturalWidth;
    const wide = Math.min(width, 420, 360 / ratio);
    const tall = wide * ratio;
    const context = fit(canvas, wide, tall);
    context.imageSmoothingEnabled = true;
    context.drawImage(image, 0, 0, wide, tall);
    const [rows, cols] = [shown.rows, shown.cols];
    if (!rows || wide / cols < 3) return;
    for (const [colour, shift] of /** @type {[string, number][]} */ ([["rgb(255 255 255 / 0.55)", 0.5], ["rgb(0 0 0 / 0.4)", 0]])) {
      context.strokeStyle = colour;
      context.lineWidth = 0.75;
      context.beginPath();
      for (let col = 1; col < cols; col += 1) { context.moveTo((col * wide) / cols + shift, 0); context.lineTo((col * wide) / cols + shift, tall); }
      for (let row = 1; row < rows; row += 1) { context.moveTo(0, (row * tall) / rows + shift); context.lineTo(wide, (row * tall) / rows + shift); }
      context.stroke();
    }
  }
  function drawWave() {
    const tall = 120;
    const context = fit(canvas, width, tall);
    const colour = theme(canvas);
    const { samples, tokens, start_s: from, seconds } = shown;
    const columns = samples.length / 2;
    const y = (/** @type {number} */ value) => ((1 - value) / 2) * (tall - 30);
    context.fillStyle = colour.accent;
    for (let i = 0; i < columns; i += 1) {
      const [low, high] = [samples[i], samples[columns + i]];
      context.fillRect((i * width) / columns, y(high), Math.max(0.75, width / columns - 0.25), Math.max(1, y(low) - y(high)));
    }
    context.fillStyle = colour.muted;
    const each = width / tokens;
    const step = each >= 3 ? 1 : 20; // a tick per token, or per second where they would touch
    for (let token = 0; token <= tokens; token += step) context.fillRect(token * each, tall - 28, 0.75, token % 20 === 0 ? 8 : 4);
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    for (let s = 0; s <= 4; s += 1) {
      context.textAlign = s === 0 ? "left" : s === 4 ? "right" : "center";
      context.fillText(`${(from + (seconds * s) / 4).toFixed(2)} s`, (width * s) / 4, tall - 9);
    }
  }
  return {
    el,
    draw,
    /** @param {any} item @param {Uint8Array[]} buffers null shows nothing */
    async show(item, buffers) {
      shown = item;
      picture = null;
      empty.hidden = Boolean(item);
      box.hidden = !item;
      if (!item) return;
      title.textContent = item.name;
      facts.textContent = factsOf(item);
      pager.hidden = !(item.pages > 1);
      place.textContent = item.pages > 1 ? `${item.label}, ${count(item.page + 1)} of ${count(item.pages)}` : "";
      [back.disabled, on.disabled] = [!(item.page > 0), !(item.page < item.pages - 1)];
      const words = item.text ?? "";
      text.textContent = words + (item.cut ? "…" : "");
      text.hidden = !words;
      if (item.kind === "audio") shown.samples = asFloat32(buffers[0]);
      canvas.hidden = item.kind !== "audio" && !buffers[0];
      canvas.setAttribute("aria-label", item.kind === "audio" ? `Waveform of ${item.name}, ${factsOf(item)}` : `${item.name}${item.label ? `, ${item.label}` : ""}, with its grid of ${item.rows} by ${item.cols} patches`);
      if (item.kind !== "audio" && buffers[0]) {
        const url = URL.createObjectURL(new Blob([/** @type {any} */ (buffers[0])], { type: "image/png" }));
        const image = new Image();
        image.src = url;
        await image.decode();
        URL.revokeObjectURL(url);
        if (shown !== item) return;
        picture = image;
      }
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
