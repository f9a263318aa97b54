// Where the weight goes, part by part, and what the answer loses without each: weight beside cause.

import { button, element } from "../_shared/dom.js";
import { count, dropWords, percent, signed } from "../_shared/format.js";

const SHOWN = 30;

/**
 * @param {{meta: any, signal: AbortSignal, onChoose: (row: any) => void, onMask: (ranges: number[][]) => void, onStop: () => void}} options
 */
export function createParts({ meta, signal, onChoose, onMask, onStop }) {
  const heads = ["Part", "Weight", "Content", "Bias", "Tokens", ...(meta.causes ? [] : ["Without it"])];
  const body = element("tbody");
  const el = element("div", { class: "ink-parts" }, [element("table", {}, [
    element("caption", { text: "Share by part" }),
    element("thead", {}, [element("tr", {}, heads.map((text) => element("th", { scope: "col", text })))]), body,
  ])]);
  /** @type {any[]} */ let rows = [];
  /** @type {any} */ let effects = { running: null, prefill: null, found: [] };
  let chosen = "";
  let token = -1; // of the reply, or -1
  const keyOf = (/** @type {any} */ row) => row.ranges.map((/** @type {number[]} */ range) => range.join("-")).join(",");

  function cause(/** @type {any} */ row) {
    const key = keyOf(row);
    const found = effects.found.find((/** @type {any} */ item) => item.key === key);
    if (effects.running === key) {
      const part = effects.prefill ? ` ${percent(effects.prefill[0] / Math.max(1, effects.prefill[1]))} read` : "…";
      return element("span", { class: "ink-running" }, [`Measuring${part} `, button("Stop", "Stop measuring", onStop, signal)]);
    }
    if (found?.problem) return element("span", { class: "ink-problem", text: found.problem });
    if (found && found.drop != null) {
      const one = token >= 0 && token < found.by_token.length ? ` · this token ${signed(-found.by_token[token])} nat` : "";
      return element("span", { class: "ink-effect" }, [
        element("b", { text: `${signed(-found.drop)} nat` }), element("span", { class: "ink-facts", text: ` ${dropWords(found.drop)}${one}` }),
      ]);
    }
    if (row.modality === "framing") return "–"; // a model without framing is another model
    const made = button("Mask", `Mask ${row.label} and judge the answer again`, () => onMask(row.ranges), signal);
    made.disabled = Boolean(effects.running);
    return made;
  }

  function draw() {
    const top = Math.max(...rows.map((row) => row.weight), 1e-9);
    const rest = rows.slice(SHOWN);
    const smaller = rest.reduce((sum, row) => sum + row.weight, 0);
    body.replaceChildren(...rows.slice(0, SHOWN).map((row) => {
      const name = element("button", { type: "button", class: "ink-name", "aria-pressed": String(row.ranges.some((/** @type {number[]} */ range) => range.join("-") === chosen)) }, [
        element("i", { style: `background:${meta.modalities[row.modality]}`, "aria-hidden": "true" }), row.label,
      ]);
      name.addEventListener("click", () => onChoose(row), { signal });
      return element("tr", {}, [
        element("th", { scope: "row" }, [name]),
        element("td", { class: "ink-weight" }, [
          element("i", { style: `width:${(row.weight / top) * 96}px;background:${meta.modalities[row.modality]}`, "aria-hidden": "true" }),
          element("span", { text: percent(row.weight) }),
        ]),
        element("td", { class: "ink-number", text: signed(row.content) }), element("td", { class: "ink-number", text: signed(row.bias) }),
        element("td", { class: "ink-number", text: count(row.tokens) }), ...(meta.causes ? [] : [element("td", {}, [cause(row)])]),
      ]);
    }), ...(rest.length ? [element("tr", {}, [element("td", { colspan: heads.length, class: "ink-facts",
      text: `… ${count(rest.length)} more parts hold ${percent(smaller)} together` })])] : []));
  }
  return {
    el,
    /** @param {any[]} given @param {number} [at] token of the reply that the query chose */
    setRows(given, at = -1) {
      [rows, token] = [given, at];
      draw();
    },
    /** @param {any} given */
    setEffects(given) {
      effects = given;
      draw();
    },
    /** @param {number[] | null} range */
    setChosen(range) {
      chosen = range ? range.join("-") : "";
      draw();
    },
  };
}
