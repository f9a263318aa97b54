// Heat on what a part is: patches over the picture, frames over the waveform, words over the passage.

import { element } from "../_shared/dom.js";
import { percent, visible } from "../_shared/format.js";
import { createMedia, placeIn } from "../_shared/media.js";
import { opacity } from "./lanes.js";

const HEAT = [213, 94, 0]; // vermilion of the project's palette
const heat = (/** @type {number} */ alpha) => `rgb(${HEAT.join(" ")} / ${alpha.toFixed(3)})`;

/** @param {{signal: AbortSignal, onHover: (words: string | null) => void, onSelect: (range: number[]) => void}} options */
export function createHeated({ signal, onHover, onSelect }) {
  /** @type {any} */ let shown = null;
  const medium = createMedia({
    signal, onBrush: (ranges) => onSelect(ranges[0] ?? []),
    onHover: (at) => onHover(at == null ? null : `${shown.label}, ${placeIn(shown, at)}: ${percent(shown.weights[at])} of the weight`),
  });
  const words = element("p", { class: "ink-passage", tabindex: "0", role: "group", "aria-label": "Passage, marked by attention weight" });
  const title = element("p", { class: "ink-title" });
  const note = element("p", { class: "ink-facts" });
  const el = element("div", { class: "ink-media", hidden: true }, [title, note, medium.el, words]);

  function drawWords(/** @type {number} */ top) {
    words.replaceChildren(...shown.texts.map((/** @type {string} */ text, /** @type {number} */ i) => {
      const share = opacity(shown.weights[i], top);
      const made = element("span", { title: `${visible(text)}: ${percent(shown.weights[i])}`, text });
      if (share > 0.02) made.style.backgroundColor = heat(share * 0.6);
      return made;
    }));
  }
  return {
    el,
    draw: medium.draw,
    resize: medium.resize,
    setSelection: medium.setSelection,
    /** @param {any} given kind, label, start, weights, and what its kind needs; null hides it */
    show(given) {
      shown = given;
      el.hidden = !given;
      if (!given) return;
      const top = Math.max(...given.weights, 0);
      const text = given.kind === "text";
      const one = given.kind === "audio" ? "50 ms" : "patch";
      title.textContent = given.label;
      note.textContent = (text ? "" : `Colour: weight of one ${one}, from 0 to ${percent(top)}. `) + (given.note ?? "");
      words.hidden = !text;
      if (text) drawWords(top);
      medium.show(text ? null : {
        ...given, tokens: given.weights.length, say: `attention weight on each ${one}`,
        colour: (/** @type {number} */ at) => heat(top > 0 ? (given.weights[at] / top) * 0.85 : 0),
      });
    },
  };
}
