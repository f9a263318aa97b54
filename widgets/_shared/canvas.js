// Canvas helpers: sharp at any pixel ratio, matrices coloured once and then only scaled, theme colours from CSS.

/**
 * Give a canvas a CSS size and a backing store that fits the screen's pixel ratio.
 * @param {HTMLCanvasElement} canvas @param {number} width CSS pixels @param {number} height CSS pixels
 * @returns {CanvasRenderingContext2D} scaled so that one unit is one CSS pixel, cleared
 */
export function fit(canvas, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  return context;
}

/**
 * Colour a matrix of 8-bit values, one pixel per value; draw it scaled with drawImage.
 * @param {Uint8Array} values row by row @param {number} rows @param {number} cols
 * @param {Uint8Array} palette 256 × RGB; 255 is drawn in `missing`
 * @param {[number, number, number]} missing
 * @param {HTMLCanvasElement} [reuse]
 */
export function paint(values, rows, cols, palette, missing, reuse) {
  const canvas = reuse ?? document.createElement("canvas");
  canvas.width = Math.max(1, cols);
  canvas.height = Math.max(1, rows);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(canvas.width, canvas.height);
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    const at = value * 3;
    const [r, g, b] = value === 255 ? missing : [palette[at], palette[at + 1], palette[at + 2]];
    image.data[i * 4] = r;
    image.data[i * 4 + 1] = g;
    image.data[i * 4 + 2] = b;
    image.data[i * 4 + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** @param {string} hex #rrggbb @returns {[number, number, number]} */
export function rgb(hex) {
  const n = Number.parseInt(hex.slice(1), 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}

/**
 * Theme colours of an element, read from its custom properties.
 * @param {Element} el
 */
export function theme(el) {
  const style = getComputedStyle(el);
  const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { ink: read("--ink-fg"), muted: read("--ink-muted"), line: read("--ink-line"), ground: read("--ink-ground"),
    accent: read("--ink-accent"), font: style.fontFamily };
}

/**
 * Call `changed` when the page turns dark or light, by the host's switch or the system's.
 * @param {() => void} changed @returns {() => void} stop watching
 */
export function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  const attributes = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-theme"] };
  observer.observe(document.body, attributes);
  observer.observe(document.documentElement, attributes);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    dark.removeEventListener("change", changed);
  };
}

/**
 * At most one call of `draw` per frame.
 * @param {() => void} draw
 */
export function frame(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}
