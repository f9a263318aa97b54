// Heat on what a part is: patches over the picture, frames over the waveform, words over the passage.

import { fit, theme } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";
import { percent, visible } from "../_shared/format.js";
import { opacity } from "./lanes.js";

const share = (/** @type {number} */ value, /** @type {number} */ top) => (top > 0 ? value / top : 0);

const HEAT = [213, 94, 0]; // vermilion of the project's palette

/** @param {{signal: AbortSignal, onHover: (words: string | null) => void, onSelect: (range: number[]) => void}} options */
export function createMedia({ signal, onHover, onSelect }) {
  const canvas = element("canvas", { class: "ink-canvas", role: "img" });
  const words = element("p", { class: "ink-passage" });
  const title = element("p", { class: "ink-title" });
  const note = element("p", { class: "ink-facts" });
  const el = element("div", { class: "ink-media", hidden: true }, [title, note, canvas, words]);
  /** @type {any} */ let shown = null;
  let width = 480;

  function frameOf(/** @type {MouseEvent} */ event) {
    if (!shown || shown.kind === "text") return -1;
    const { clientWidth, clientHeight } = canvas;
    if (shown.kind === "audio") return Math.min(shown.weights.length - 1, Math.floor((event.offsetX / clientWidth) * shown.weights.length));
    const [row, col] = [Math.floor((event.offsetY / clientHeight) * shown.rows), Math.floor((event.offsetX / clientWidth) * shown.cols)];
    return Math.max(0, Math.min(shown.weights.length - 1, row * shown.cols + col));
  }
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const at = frameOf(event);
    if (at < 0) return;
    const where = shown.kind === "audio" ? `${(at / 20).toFixed(2)} to ${((at + 1) / 20).toFixed(2)} s`
      : `patch row ${Math.floor(at / shown.cols) + 1} of ${shown.rows}, column ${(at % shown.cols) + 1}`;
    onHover(`${shown.label}, ${where}: ${percent(shown.weights[at])} of the weight`);
  }, { signal });
  canvas.addEventListener("pointerleave", () => onHover(null), { signal });
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const at = frameOf(event);
    if (at >= 0) onSelect([shown.start + at, shown.start + at + 1]);
  }, { signal });

  function draw() {
    if (!shown) return;
    canvas.hidden = shown.kind === "text";
    words.hidden = shown.kind !== "text";
    const top = Math.max(...shown.weights, 0);
    if (shown.kind === "text") drawWords(top);
    else if (shown.kind === "image") drawImage(top);
    else drawWave(top);
  }
  function drawImage(/** @type {number} */ top) {
    const { rows, cols, picture, weights } = shown;
    const ratio = picture ? picture.naturalHeight / picture.naturalWidth : rows / cols;
    const wide = Math.min(width, 420, 360 / ratio);
    const tall = wide * ratio;
    const context = fit(canvas, wide, tall);
    const colour = theme(canvas);
    context.imageSmoothingEnabled = true;
    if (picture) {
      context.drawImage(picture, 0, 0, wide, tall);
      context.fillStyle = "rgb(255 255 255 / 0.35)"; // so that heat reads on any picture
      context.fillRect(0, 0, wide, tall);
    }
    for (let at = 0; at < weights.length; at += 1) {
      context.fillStyle = `rgb(${HEAT.join(" ")} / ${share(weights[at], top) * 0.85})`;
      const [row, col] = [Math.floor(at / cols), at % cols];
      context.fillRect((col * wide) / cols, (row * tall) / rows, wide / cols + 0.5, tall / rows + 0.5);
    }
    if (wide / cols < 6) return;
    context.strokeStyle = picture ? "rgb(0 0 0 / 0.15)" : colour.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let col = 0; col <= cols; col += 1) { context.moveTo((col * wide) / cols, 0); context.lineTo((col * wide) / cols, tall); }
    for (let row = 0; row <= rows; row += 1) { context.moveTo(0, (row * tall) / rows); context.lineTo(wide, (row * tall) / rows); }
    context.stroke();
  }
  function drawWave(/** @type {number} */ top) {
    const [tall, { weights, peaks }] = [112, shown];
    const context = fit(canvas, width, tall);
    const colour = theme(canvas);
    for (let at = 0; at < weights.length; at += 1) {
      context.fillStyle = `rgb(${HEAT.join(" ")} / ${share(weights[at], top) * 0.75})`;
      context.fillRect((at * width) / weights.length, 0, width / weights.length + 0.5, tall - 18);
    }
    context.fillStyle = colour.ink;
    const columns = peaks ? peaks.length / 2 : 0;
    const y = (/** @type {number} */ value) => ((1 - value) / 2) * (tall - 18);
    for (let i = 0; i < columns; i += 1) {
      const [low, high] = [peaks[i], peaks[columns + i]];
      context.fillRect((i * width) / columns, y(high), Math.max(0.75, width / columns - 0.25), Math.max(1, y(low) - y(high)));
    }
    context.font = `11px ${colour.font}`;
    context.fillStyle = colour.muted;
    context.textBaseline = "middle";
    const seconds = weights.length / 20;
    for (let s = 0; s <= 4; s += 1) {
      context.textAlign = s === 0 ? "left" : s === 4 ? "right" : "center";
      context.fillText(`${((seconds * s) / 4).toFixed(1)} s`, (width * s) / 4, tall - 7);
    }
  }
  function drawWords(/** @type {number} */ top) {
    words.replaceChildren(...shown.texts.map((/** @type {string} */ text, /** @type {number} */ i) => {
      const share = opacity(shown.weights[i], top);
      const made = element("span", { title: `${visible(text)}: ${percent(shown.weights[i])}`, text });
      if (share > 0.02) made.style.backgroundColor = `rgb(${HEAT.join(" ")} / ${(share * 0.6).toFixed(3)})`;
      return made;
    }));
  }
  return {
    el,
    draw,
    /** @param {any} given kind, label, start, weights, and what its kind needs; null hides it */
    show(given) {
      shown = given;
      el.hidden = !given;
      if (!given) return;
      title.textContent = given.label;
      const scale = given.kind === "text" ? "" : `Colour: weight of one ${given.kind === "audio" ? "50 ms" : "patch"}, from 0 to ${percent(Math.max(...given.weights, 0))}. `;
      note.textContent = scale + (given.note ?? "");
      canvas.setAttribute("aria-label", `${given.label}: attention weight on each ${given.kind === "audio" ? "50 ms" : "patch"}`);
      draw();
    },
    /** @param {number} pixels */
    resize(pixels) {
      width = pixels;
      draw();
    },
  };
}
