// An expert's favourites: the passages, patches and stretches of sound on which it takes most of the weight. Found when they are opened.

import { element } from "../_shared/dom.js";
import { percent, tokens } from "../_shared/format.js";
import { placeIn } from "../_shared/media.js";

/**
 * @param {{meta: any, signal: AbortSignal, ask: (verb: string, args: any) => Promise<any>, cell: () => number[] | null,
 *   onChoose: (range: number[]) => void}} options `cell` is [row, expert]
 */
export function createFavourites({ meta, signal, ask, cell, onChoose }) {
  const summary = element("summary");
  const status = element("p", { class: "ink-facts", role: "status" });
  const list = element("ol", { class: "ink-favourites" });
  const el = element("details", { class: "ink-more", hidden: true }, [summary, status, list]);
  let shown = "";

  function where(/** @type {any} */ row) {
    if (row.kind === "passages") return row.label;
    const item = meta.media.find((/** @type {any} */ one) => row.start >= one.start && row.start < one.start + one.tokens);
    if (row.kind === "frames") return `${row.label}, ${row.start_s.toFixed(2)} to ${row.stop_s.toFixed(2)} s`;
    return item ? `${row.label}, ${placeIn({ kind: "image", ...row.grid }, row.start - item.start)}` : row.label;
  }
  async function fill() {
    const at = cell();
    if (!el.open || !at || shown === String(at)) return;
    shown = String(at);
    list.replaceChildren();
    status.textContent = "Walking the capture for them…";
    const found = await ask("favourites", { layer: meta.layers[at[0]], expert: at[1] });
    if (shown !== String(at)) return;
    if (!found) {
      [shown, status.textContent] = ["", ""];
      return;
    }
    const { rows } = found.result;
    status.textContent = rows.length ? "Mean share of the weight. What an expert is used for is a correlation: banning it shows what it does."
      : "No token of this context chose it.";
    list.replaceChildren(...rows.map((/** @type {any} */ row) => {
      const name = element("button", { type: "button", class: "ink-favourite", title: `Choose ${tokens(row.start, row.stop)}` }, [
        element("b", { text: percent(row.share) }), element("span", { class: "ink-facts", text: where(row) }),
        ...(row.text ? [element("span", {}, passage(row.text))] : []),
      ]);
      name.addEventListener("click", () => onChoose([row.start, row.stop]), { signal });
      return element("li", {}, [name]);
    }));
  }
  /** What stands between the marks is the passage; the rest is around it. @param {string} text */
  function passage(text) {
    const [before, rest = ""] = text.split("⟦");
    const [inside, after = ""] = rest.split("⟧");
    return [before, element("mark", { text: inside }), after];
  }
  el.addEventListener("toggle", fill, { signal });
  return {
    el,
    /** The chosen expert is another one. */
    follow() {
      const at = cell();
      el.hidden = !at || !meta.favourites;
      if (!at) return;
      summary.textContent = `Favourite passages of layer ${meta.layers[at[0]]}, expert ${at[1]}`;
      fill();
    },
  };
}
