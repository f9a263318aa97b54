// The picture or recording of the context under its routing: coloured by token as the strip is, pointed at and brushed with it.

import { asFloat32 } from "../_shared/bytes.js";
import { choice, element } from "../_shared/dom.js";
import { createMedia, pictureOf } from "../_shared/media.js";

const MOST_BUCKETS = 4_096; // an hour of sound stays well under a megabyte for 66 layers
const SHADE = 0.6; // over what is there to see

/** Mean over the rows of a strip of bytes; 255, which is nothing, counts nowhere. @param {Uint8Array} values @param {number} rows @param {number} buckets */
export function meanRows(values, rows, buckets) {
  return Uint8Array.from({ length: buckets }, (_, b) => {
    let [sum, held] = [0, 0];
    for (let l = 0; l < rows; l += 1) {
      const value = values[l * buckets + b];
      if (value === 255) continue;
      sum += value;
      held += 1;
    }
    return held ? Math.round(sum / held) : 255;
  });
}

/** Index of the medium that holds some token of a range, or -1. @param {any[]} media @param {number[] | null} range */
export function mediumOf(media, range) {
  return range ? media.findIndex(({ start, tokens }) => range[0] < start + tokens && range[1] > start) : -1;
}

/**
 * @param {{meta: any, signal: AbortSignal, ask: (verb: string, args: any, lane: string) => Promise<any>, strip: () => any,
 *   look: () => {palette: Uint8Array, words: string}, onHover: (t: number | null) => void, onBrush: (ranges: number[][]) => void}} options
 *   `strip` gives what to ask for, or null; `look` how it is coloured
 */
export function createPlaces({ meta, signal, ask, strip, look, onHover, onBrush }) {
  const { media } = meta;
  let index = 0;
  /** @type {any} */ let source = null;
  const medium = createMedia({ signal, region: true, onBrush, onHover: (at) => onHover(at == null ? null : media[index].start + at) });
  const names = media.map((/** @type {any} */ item, /** @type {number} */ i) => [String(i), item.label]);
  const which = choice("Picture or recording", names, "0", (value) => show(Number(value)), signal);
  const note = element("span", { class: "ink-facts" });
  const el = element("div", { class: "ink-places", hidden: !media.length }, [
    element("div", { class: "ink-row" }, [which.el, note]), medium.el, element("p", { class: "ink-facts", text: "Drag over patches or along the sound to choose them." }),
  ]);

  async function show(/** @type {number} */ at) {
    index = at;
    which.select.value = String(at);
    const found = await ask("media", { index: at }, "media");
    if (!found || at !== index) return;
    const bytes = found.buffers[0];
    const item = media[at];
    source = { ...found.result, label: item.label, start: item.start, tokens: item.tokens,
      ...(item.kind === "audio" ? { peaks: bytes ? asFloat32(bytes) : null } : { picture: bytes ? await pictureOf(bytes) : null }) };
    await colour();
  }
  async function colour() {
    if (!source) return;
    const asked = strip();
    const { start, tokens } = source;
    const shown = source;
    const found = asked && await ask("strip", { ...asked, start, stop: start + tokens, buckets: Math.min(tokens, MOST_BUCKETS) }, "media strip");
    if (shown !== source || (asked && !found)) return;
    const values = found ? meanRows(found.buffers[0], found.result.rows, found.result.buckets) : null;
    const { palette, words } = look();
    const shade = source.picture || source.peaks ? SHADE : 1;
    const rows = found?.result.rows > 1 ? ", mean over the layers" : "";
    note.textContent = values ? `Colour: ${words}${rows}${media[index].here ? "" : ". The capture does not hold its bytes"}` : "";
    medium.show({
      ...source, say: `${words}${rows}`,
      colour: (/** @type {number} */ at) => {
        const value = values ? values[Math.floor((start + at - found.result.start) / found.result.width)] : 255;
        return value === 255 || value == null ? "transparent" : `rgb(${palette[value * 3]} ${palette[value * 3 + 1]} ${palette[value * 3 + 2]} / ${shade})`;
      },
    });
  }
  return {
    el,
    colour,
    draw: medium.draw,
    resize: medium.resize,
    setMarked: medium.setMarked,
    /** @param {number[][]} ranges chosen tokens; the medium that holds some of them is shown */
    setSelection(ranges) {
      medium.setSelection(ranges);
      const at = mediumOf(media, ranges.length ? [ranges[0][0], ranges[ranges.length - 1][1]] : null);
      if (at >= 0 && at !== index) show(at);
    },
    begin: () => { if (media.length) show(Math.max(0, index)); },
  };
}
