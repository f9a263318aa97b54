// The answer under way: waiting, reading the prompt with the time left, then the text as it comes.

import { element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";

/** @param {number} seconds @returns {string} */
export function left(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return "";
  if (seconds < 60) return `about ${Math.max(1, Math.round(seconds))} s left`;
  if (seconds < 3_600) return `about ${Math.round(seconds / 60)} min left`;
  return `about ${(seconds / 3_600).toFixed(1)} h left`;
}

/**
 * @param {{phase?: string, done_tokens?: number, total_tokens?: number, left_s?: number | null, queue?: number}} live
 * @returns {string}
 */
export function progressWords({ phase, done_tokens: done = 0, total_tokens: total = 0, left_s, queue }) {
  if (phase === "waiting") return queue ? `Waiting, ${queue} before this one` : "Waiting for the engine";
  if (phase === "reading") return [`Reading ${count(done)} of ${count(total)} tokens`, left_s == null ? "" : left(left_s)].filter(Boolean).join(", ");
  return phase === "thinking" ? "Thinking" : "";
}

/** Show `words`; where they go on from what is shown, only what is new is put in: a reader's selection stays. */
function write(/** @type {HTMLElement} */ place, /** @type {string} */ words) {
  const held = /** @type {Text | null} */ (place.firstChild);
  const shown = held?.data ?? "";
  if (held && words.startsWith(shown)) {
    if (words.length > shown.length) held.appendData(words.slice(shown.length));
  } else place.textContent = words;
}

/** The element, and a way to show a state. */
export function createLive() {
  const words = element("span", { class: "ink-facts" });
  const fill = element("i");
  const bar = element("div", { class: "ink-progress", role: "progressbar", "aria-label": "Prompt read", "aria-valuemin": "0", "aria-valuemax": "100" }, [fill]);
  const reasoning = element("p", { class: "ink-reasoning", hidden: true });
  const text = element("p", { class: "ink-said" });
  const el = element("article", { class: "ink-live", "aria-busy": "true", hidden: true }, [words, bar, reasoning, text]);
  return {
    el,
    /** @param {any} live */
    show(live) {
      el.hidden = !live.phase;
      if (!live.phase) return;
      const share = live.total_tokens ? live.done_tokens / live.total_tokens : 0;
      words.textContent = progressWords(live);
      words.hidden = !words.textContent;
      bar.hidden = live.phase !== "reading";
      bar.setAttribute("aria-valuenow", String(Math.round(share * 100)));
      fill.style.width = `${share * 100}%`;
      reasoning.hidden = !live.reasoning;
      write(reasoning, live.reasoning ?? "");
      write(text, live.text ?? "");
    },
  };
}
