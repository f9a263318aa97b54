// The question asked again without some convolutions: switches, progress, and what became of the answer.

import { button, choice, element } from "../_shared/dom.js";
import { dropWords, percent, signed } from "../_shared/format.js";

/** First place where two answers differ. @param {string} one @param {string} other */
export function firstDifference(one, other) {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}

/** The text with what differs from `base` marked. @param {string} text @param {string} base */
function marked(text, base) {
  const at = firstDifference(text, base);
  return [text.slice(0, at), ...(at < text.length ? [element("mark", { text: text.slice(at) })] : [])];
}

/**
 * @param {{meta: any, layer: () => number, signal: AbortSignal, onAsk: (sites: string[], layers: any) => void, onStop: () => void}} options
 */
export function createAsking({ meta, layer, signal, onAsk, onStop }) {
  const boxes = meta.sites.map((/** @type {string} */ site) => {
    const box = element("input", { type: "checkbox", value: site });
    return { site, box, el: element("label", { class: "ink-switch" }, [box, meta.site_words[site]]) };
  });
  let scope = "all";
  const where = choice("in", [["all", "all layers"], ["one", "the chosen layer"], ["global", "global layers"], ["local", "sliding layers"]], scope,
    (value) => { scope = value; }, signal);
  const go = button("Ask again without them", "Ask the question again without the chosen convolutions", () => {
    const sites = boxes.filter((/** @type {any} */ { box }) => box.checked).map((/** @type {any} */ item) => item.site);
    if (sites.length) onAsk(sites, scope === "one" ? [layer()] : scope);
    else status.textContent = "Choose a site first.";
  }, signal);
  const stop = button("Stop", "Stop asking", onStop, signal);
  const status = element("span", { class: "ink-facts", role: "status" });
  const results = element("div", { class: "ink-results" });
  const el = element("section", { class: "ink-asking", "aria-label": "Without convolutions" }, [
    element("p", { class: "ink-title", text: "Without convolutions" }),
    meta.causes ? element("p", { class: "ink-facts", text: meta.causes })
      : element("div", { class: "ink-row" }, [
        element("span", { class: "ink-switches", role: "group", "aria-label": "Sites to leave out" }, boxes.map((/** @type {any} */ item) => item.el)),
        where.el, go, stop, status,
      ]),
    results,
  ]);
  stop.hidden = true;

  function card(/** @type {any} */ effect) {
    if (effect.problem) return element("article", { class: "ink-result" }, [element("p", { text: effect.words }), element("p", { class: "ink-problem", text: effect.problem })]);
    const same = effect.text === effect.base_text;
    return element("article", { class: "ink-result" }, [
      element("p", {}, [element("strong", { text: effect.words })]),
      element("p", {}, [element("b", { text: `${signed(-effect.drop)} nat` }), ` for the answer as it was: ${dropWords(effect.drop)}`]),
      element("dl", {}, [
        element("dt", { text: "as it is" }), element("dd", { text: effect.base_text || "(nothing)" }),
        element("dt", { text: "without" }), element("dd", {}, same ? [element("span", { class: "ink-facts", text: "the same answer" })] : marked(effect.text || "(nothing)", effect.base_text)),
      ]),
    ]);
  }
  return {
    el,
    /** @param {any} state running, prefill, found */
    set(state) {
      go.disabled = Boolean(state.running);
      stop.hidden = !state.running;
      const read = state.prefill ? `: ${percent(state.prefill[0] / Math.max(1, state.prefill[1]))} of the context read` : "";
      status.textContent = state.running ? `Asking${read}…` : "";
      const done = state.found.filter((/** @type {any} */ item) => item.drop != null || item.problem);
      results.replaceChildren(...done.reverse().map(card));
    },
  };
}
