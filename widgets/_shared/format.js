// Numbers and places in words, the same in every widget.

const whole = new Intl.NumberFormat("en-GB");

/** @param {number} n @returns {string} 12,345 */
export function count(n) {
  return whole.format(n);
}

/** @param {number | null | undefined} share 0 to 1 @returns {string} 4.2 % */
export function percent(share) {
  if (share == null || Number.isNaN(share)) return "–";
  const value = share * 100;
  return `${value.toFixed(value >= 10 || value === 0 ? 0 : value >= 1 ? 1 : 2)} %`;
}

/** @param {number | null | undefined} value @returns {string} 0.97 bit */
export function bits(value) {
  return value == null || Number.isNaN(value) ? "–" : `${value.toFixed(2)} bit`;
}

/** @param {number} start @param {number} stop excluded @returns {string} */
export function tokens(start, stop) {
  return stop - start === 1 ? `token ${count(start)}` : `tokens ${count(start)} to ${count(stop - 1)}`;
}

/** With its first letter large. @param {string} text */
export const sentence = (text) => text[0].toUpperCase() + text.slice(1);

/** With a full stop behind it, whatever it ended with. @param {string} text */
export const ended = (text) => (/[.!?…]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`);

/**
 * The span that holds token t (spans partition the tokens, sorted).
 * @param {any[]} spans @param {number} t
 */
export function spanAt(spans, t) {
  let [low, high] = [0, spans.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].stop <= t) low = middle + 1;
    else high = middle;
  }
  return spans[low];
}

/**
 * Where a token comes from: page, patch row and column (counted from 1), seconds.
 * @param {any} span @param {number} t @returns {string}
 */
export function place(span, t) {
  const offset = t - span.start;
  const where = span.place;
  if (!where) return span.label;
  if (where.kind === "image") {
    const [row, col] = [Math.floor(offset / where.cols), offset % where.cols];
    return `${span.label}, patch row ${row + 1} of ${where.rows}, column ${col + 1} of ${where.cols}`;
  }
  if (where.kind === "audio") {
    const at = where.start_s + offset / 20; // 20 tokens a second
    return `${span.label}, ${at.toFixed(2)} to ${Math.min(at + 0.05, where.stop_s).toFixed(2)} s`;
  }
  return where.page && !span.label.includes("page") ? `${span.label}, page ${where.page}` : span.label;
}

/** Where a range of tokens comes from, its first and its last. @param {any[]} spans @param {number[]} range */
export function whereOf(spans, [start, stop]) {
  const [first, last] = [place(spanAt(spans, start), start), place(spanAt(spans, stop - 1), stop - 1)];
  return first === last ? first : `${first} – ${last}`;
}

/** Text of a token with its spaces and line ends made visible. @param {string} text */
export function visible(text) {
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣");
}

/** A number with its sign. @param {number | null | undefined} value */
export function signed(value) {
  if (value == null || Number.isNaN(value)) return "–";
  const size = Math.abs(value).toFixed(2);
  return size === "0.00" ? size : `${value < 0 ? "−" : "+"}${size}`;
}

/**
 * What losing so many nats means, in words.
 * @param {number} drop @returns {string}
 */
export function dropWords(drop) {
  const times = Math.exp(Math.abs(drop));
  if (Math.abs(drop) < 0.005) return "no effect";
  if (times >= 1e6) return `answer more than a million times ${drop > 0 ? "less" : "more"} likely`;
  const size = times >= 1000 ? count(Number(times.toPrecision(2))) : times.toFixed(times < 10 ? 2 : 0);
  return `answer ${size} times ${drop > 0 ? "less" : "more"} likely`;
}
