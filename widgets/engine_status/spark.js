// A small line of the last two minutes, filled below, with its newest value as a dot. Decorative: its numbers stand beside it.

import { fit, theme } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";

/** @param {string} colour custom property or hex */
export function createSpark(colour) {
  const canvas = element("canvas", { class: "ink-spark", "aria-hidden": "true" });
  return {
    el: canvas,
    /**
     * @param {number[]} xs seconds, ascending, 0 is now @param {number[]} ys @param {number} span_s width of the window
     * @param {number} top value of the upper edge, above 0
     */
    draw(xs, ys, span_s, top) {
      const [width, height] = [canvas.parentElement?.clientWidth || 160, 36];
      const context = fit(canvas, width, height);
      const shades = theme(canvas);
      const x = (/** @type {number} */ s) => (1 + s / span_s) * (width - 4) + 1;
      const y = (/** @type {number} */ v) => height - 2 - (Math.min(v, top) / top) * (height - 6);
      context.strokeStyle = shades.line;
      context.beginPath();
      context.moveTo(0, height - 1.5);
      context.lineTo(width, height - 1.5);
      context.stroke();
      if (!xs.length) return;
      context.beginPath();
      xs.forEach((s, i) => (i ? context.lineTo(x(s), y(ys[i])) : context.moveTo(x(s), y(ys[i]))));
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.stroke();
      context.lineTo(x(xs[xs.length - 1]), height - 2);
      context.lineTo(x(xs[0]), height - 2);
      context.globalAlpha = 0.15;
      context.fillStyle = colour;
      context.fill();
      context.globalAlpha = 1;
      context.beginPath();
      context.arc(x(xs[xs.length - 1]), y(ys[ys.length - 1]), 2.5, 0, 7);
      context.fillStyle = colour;
      context.fill();
    },
  };
}
