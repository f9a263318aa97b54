// The numbers of a picture as text: a table, and the switch between the two.

import { button, element } from "./dom.js";

/** @param {string} caption @param {string[]} heads @param {string[][]} rows the first cell of each is its heading */
export function table(caption, heads, rows) {
  return element("table", {}, [
    element("caption", { text: caption }),
    element("thead", {}, [element("tr", {}, heads.map((text) => element("th", { scope: "col", text })))]),
    element("tbody", {}, rows.map(([first, ...rest]) =>
      element("tr", {}, [element("th", { scope: "row", text: first }), ...rest.map((text) => element("td", { text }))]))),
  ]);
}

/**
 * @param {{chart: HTMLElement, signal: AbortSignal, tables: () => Node[], onChart: () => void}} options `tables` makes them when they are
 *   looked at; `onChart` is called when the picture is shown again
 */
export function createTabled({ chart, signal, tables, onChart }) {
  const el = element("div", { class: "ink-tables", hidden: true });
  const refresh = () => { if (!el.hidden) el.replaceChildren(...tables()); };
  const made = button("As table", "Show the numbers as tables", () => {
    [el.hidden, chart.hidden] = [!el.hidden, el.hidden];
    made.textContent = el.hidden ? "As table" : "As picture";
    made.setAttribute("aria-pressed", String(!el.hidden));
    if (el.hidden) onChart();
    else refresh();
  }, signal);
  made.setAttribute("aria-pressed", "false");
  return { el, button: made, refresh, shown: () => !el.hidden };
}
