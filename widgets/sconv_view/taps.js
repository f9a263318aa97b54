// What each tap brings, by modality, as a table whose cells carry a bar.

import { element } from "../_shared/dom.js";
import { count, percent } from "../_shared/format.js";

const signedPercent = (/** @type {number | null} */ share) => (share == null ? "–" : share < 0 ? `−${percent(-share)}` : percent(share));

/** @param {{meta: any}} options */
export function createTaps({ meta }) {
  const caption = element("caption", { text: "What each tap brings" });
  const taps = Array.from({ length: meta.taps }, (_, i) => meta.taps - 1 - i); // furthest back first, as the kernels are drawn
  const heads = ["Tokens of", "Count", "Adds", "Cosine", ...taps.map((tap) => (tap ? `Tap −${tap}` : "Tap 0"))];
  const body = element("tbody");
  const el = element("div", { class: "ink-taps" }, [element("table", {}, [
    caption, element("thead", {}, [element("tr", {}, heads.map((text) => element("th", { scope: "col", text })))]), body,
  ])]);
  return {
    el,
    /** @param {string} words whose @param {any[]} groups */
    set(words, groups) {
      caption.textContent = `What each tap brings: ${words}`;
      const top = Math.max(...groups.flatMap((group) => group.share.map((/** @type {number | null} */ v) => Math.abs(v ?? 0))), 1e-9);
      body.replaceChildren(...groups.map((group) => element("tr", {}, [
        element("th", { scope: "row" }, [element("i", { class: "ink-swatch", style: `background:${meta.modalities[group.name]}`, "aria-hidden": "true" }), group.name]),
        element("td", { text: count(group.tokens) }), element("td", { text: group.ratio == null ? "–" : `${group.ratio.toFixed(2)} ×` }),
        element("td", { text: group.cosine == null ? "–" : group.cosine.toFixed(2).replace("-", "−") }),
        ...taps.map((tap) => element("td", {}, [
          element("span", { text: signedPercent(group.share[tap]) }),
          element("i", { class: `ink-tap${(group.share[tap] ?? 0) < 0 ? " is-against" : ""}`, "aria-hidden": "true",
            style: `width:${(Math.abs(group.share[tap] ?? 0) / top) * 56}px` }),
        ])),
      ])));
      if (!groups.length) body.replaceChildren(element("tr", {}, [element("td", { colspan: heads.length, text: "None of these tokens was recorded." })]));
    },
  };
}
