// Which part a run of tokens belongs to, for labels: pure, no canvas.

/**
 * Runs of spans of one part (framing of its own in between does not split a name).
 * @param {any[]} spans sorted, touching
 * @returns {{start: number, stop: number, label: string, modality: string}[]}
 */
export function bandsOf(spans) {
  /** @type {any[]} */
  const bands = [];
  for (const span of spans) {
    const last = bands[bands.length - 1];
    if (last && last.modality === span.modality && (span.modality === "framing" || (span.part && last.part === span.part))) {
      last.stop = span.stop;
      last.label = common(last.label, span.label);
    } else bands.push({ start: span.start, stop: span.stop, label: span.label, modality: span.modality, part: span.part });
  }
  return bands;
}

/** What two labels share: "harbour.pdf, page 1" and "harbour.pdf, page 2" give "harbour.pdf". @param {string} a @param {string} b */
export function common(a, b) {
  if (a === b) return a;
  let end = 0;
  while (end < Math.min(a.length, b.length) && a[end] === b[end]) end += 1;
  const shared = a.slice(0, end).replace(/[\s,;:·–-]*(page|slide|sheet)?\s*$/, "");
  return shared || a;
}

/** The next of 1, 2, 5, 10, 20, 50, … that is at least `value`. @param {number} value */
export function niceStep(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return (/** @type {number} */ ([1, 2, 5, 10].find((n) => n * power >= value))) * power;
}
