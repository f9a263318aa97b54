// The query tokens to look from: a list box, one option per recorded token, arrow keys move.

import { element } from "../_shared/dom.js";
import { count, visible } from "../_shared/format.js";
import { bindKeys } from "../_shared/keys.js";

let instances = 0;

/** @param {{queries: any[], signal: AbortSignal, onChoose: (index: number) => void}} options */
export function createQueries({ queries, signal, onChoose }) {
  const name = `ink-queries-${(instances += 1)}`;
  const options = queries.map((query, index) => {
    const text = query.next || query.text;
    const option = element("span", {
      id: `${name}-${index}`, role: "option", class: "ink-query", "aria-selected": "false",
      title: `Token ${count(query.t)} “${visible(query.text)}”${query.next ? `, which chose “${visible(query.next)}”` : ""}`,
      text: text ? visible(text) : `#${count(query.t)}`,
    });
    option.addEventListener("click", () => onChoose(index), { signal });
    return option;
  });
  const list = element("div", { class: "ink-queries", role: "listbox", tabindex: "0", "aria-label": "Look from this token",
    "aria-orientation": "horizontal" }, options);
  let at = 0;
  const go = (/** @type {number} */ to) => onChoose(Math.max(0, Math.min(queries.length - 1, to)));
  bindKeys(list, {
    left: () => go(at - 1), right: () => go(at + 1), up: () => go(at - 1), down: () => go(at + 1), home: () => go(0),
    end: () => go(queries.length - 1), pageUp: () => go(at - 10), pageDown: () => go(at + 10),
  }, signal);
  return {
    el: list,
    /** @param {number} index */
    setChosen(index) {
      options[at]?.setAttribute("aria-selected", "false");
      at = index;
      const option = options[at];
      if (!option) return;
      option.setAttribute("aria-selected", "true");
      list.setAttribute("aria-activedescendant", option.id);
      list.scrollLeft = Math.max(0, option.offsetLeft - list.clientWidth / 2);
    },
  };
}
