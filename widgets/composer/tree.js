// Where the tokens are: folders, files and pages with exact counts, as nested disclosures that are filled when they are opened.

import { element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";

/** @param {any} branch @param {number} total @param {Record<string, string>} modalities @param {boolean} [open] @returns {any} */
export function treeOf(branch, total, modalities, open = false) {
  const bar = element("span", { class: "ink-branch-bar", "aria-hidden": "true" }, Object.entries(branch.by_modality).filter(([, tokens]) => tokens)
    .map(([name, tokens]) => element("i", { style: `width:${(/** @type {number} */ (tokens) / Math.max(1, total)) * 120}px;background:${modalities[name]}` })));
  const kinds = Object.entries(branch.by_modality).filter(([, tokens]) => tokens).map(([name, tokens]) => `${name} ${count(/** @type {number} */ (tokens))}`);
  const line = [element("span", { class: "ink-branch-name", text: branch.label }), bar, element("b", { text: count(branch.tokens) }),
    element("small", { text: kinds.length > 1 ? kinds.join(", ") : "" })];
  if (!branch.children.length) return element("li", { class: "ink-branch" }, line);
  const inside = element("ul");
  const details = element("details", {}, [element("summary", { class: "ink-branch" }, line), inside]);
  const fill = () => {
    if (inside.childElementCount) return;
    inside.replaceChildren(...branch.children.map((/** @type {any} */ child) => treeOf(child, total, modalities)));
    if (branch.more) inside.append(element("li", { class: "ink-branch ink-facts", text: `… ${count(branch.more)} more, smaller ones` }));
  };
  details.addEventListener("toggle", fill);
  if (open) {
    fill();
    details.open = true;
  }
  return element("li", {}, [details]);
}
