// The routing map in a page of its own: `mount` takes the traits and arrays that a report embeds as base64.

import { asUint16, asUint8, fromBase64 } from "../_shared/bytes.js";
import { staticModel } from "../_shared/static_model.js";
import { answers } from "./static_answers.js";
import { render } from "./view.js";

const NOT_HERE = "This report holds the overview only: open the saved capture in a notebook to zoom in.";

/** @param {HTMLElement} el @param {{traits: any, bytes: Record<string, string>, arrays: any}} data */
export function mount(el, { traits, bytes, arrays }) {
  // A page without Python has no pictures and walks no capture.
  const state = { ...traits, meta: { ...traits.meta, media: [], favourites: false } };
  for (const [name, text] of Object.entries(bytes)) state[name] = fromBase64(text);
  const answer = arrays
    ? answers(state.meta, {
      expert: arrays.wide ? asUint16(fromBase64(arrays.expert)) : asUint8(fromBase64(arrays.expert)),
      share: asUint16(fromBase64(arrays.share)), sink: asUint16(fromBase64(arrays.sink)), texts: arrays.texts,
    })
    : overviewOnly(state);
  return render({ model: staticModel(state, answer), el });
}

/** Without arrays: the whole strip as it came; what is finer than it, and everything else, is refused. */
function overviewOnly(/** @type {any} */ state) {
  return (/** @type {string} */ verb, /** @type {any} */ args) => {
    const values = { entropy: state.entropy, sink: state.sink_mass }[/** @type {string} */ (args.metric)];
    const finer = args.stop - args.start < state.meta.tokens && (args.stop - args.start) / args.buckets < state.meta.overview.width;
    if (verb !== "strip" || !values || args.stat !== "mean" || finer) throw new Error(NOT_HERE);
    return { result: { ...state.meta.overview, metric: args.metric, stat: "mean", rows: state.meta.layers.length }, buffers: [values] };
  };
}
