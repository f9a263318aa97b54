// A colour scale with its ends in words.

import { element } from "./dom.js";
import { fit } from "./canvas.js";

const [WIDTH, HEIGHT] = [112, 8];

/** @param {Uint8Array} palette 256 × RGB */
export function createLegend(palette) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const [title, low, high] = ["ink-legend-title", "", ""].map((name) => element("span", { class: name }));
  const el = element("span", { class: "ink-legend" }, [title, low, canvas, high]);
  return {
    el,
    /** @param {string} words what the colour means @param {string} from @param {string} to @param {Uint8Array} [by] palette */
    set(words, from, to, by = palette) {
      [title.textContent, low.textContent, high.textContent] = [words, from, to];
      const context = fit(canvas, WIDTH, HEIGHT);
      for (let x = 0; x < WIDTH; x += 1) {
        const at = Math.round((x / (WIDTH - 1)) * 254) * 3;
        context.fillStyle = `rgb(${by[at]} ${by[at + 1]} ${by[at + 2]})`;
        context.fillRect(x, 0, 1, HEIGHT);
      }
    },
  };
}
