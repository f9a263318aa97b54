// A colour scale with its ends in words.

import { element } from "./dom.js";
import { fit } from "./canvas.js";

const [WIDTH, HEIGHT] = [112, 8];

/** @param {Uint8Array} palette 256 × RGB @param {AbortSignal} signal */
export function createLegend(palette, signal) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const [title, low, high] = ["ink-legend-title", "", ""].map((name) => element("span", { class: name }));
  const el = element("span", { class: "ink-legend" }, [title, low, canvas, high]);
  let shown = palette;
  function draw() {
    const context = fit(canvas, WIDTH, HEIGHT);
    for (let x = 0; x < WIDTH; x += 1) {
      const at = Math.round((x / (WIDTH - 1)) * 254) * 3;
      context.fillStyle = `rgb(${shown[at]} ${shown[at + 1]} ${shown[at + 2]})`;
      context.fillRect(x, 0, 1, HEIGHT);
    }
  }
  addEventListener("resize", draw, { signal }); // zooming changes the screen's pixels, not the size
  return {
    el,
    /** @param {string} words what the colour means @param {string} from @param {string} to @param {Uint8Array} [by] palette */
    set(words, from, to, by = palette) {
      [title.textContent, low.textContent, high.textContent, shown] = [words, from, to, by];
      draw();
    },
  };
}
