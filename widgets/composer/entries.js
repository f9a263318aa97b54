// The entries in order: move, pin, switch off, remove, by buttons, keys or dragging; what an edit costs is asked before it is made.

import { element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";

const SHOWN = 200;

/**
 * Where an entry that is dragged over another would stand, as `move` counts: indices of the list without it.
 * @param {number} from @param {number} over @param {boolean} below the middle of what it is over
 */
export function dropIndex(from, over, below) {
  const gap = over + (below ? 1 : 0); // place between entries, of the whole list
  return gap > from ? gap - 1 : gap;
}

/**
 * @param {{signal: AbortSignal, onChoose: (index: number) => void, onEdit: (edit: any) => void, onCost: (edit: any | null, what: string) => void}}
 *   options
 */
export function createEntries({ signal, onChoose, onEdit, onCost }) {
  const list = element("ol", { class: "ink-entries", "aria-label": "Entries, in the order in which they are sent" });
  const more = element("button", { type: "button", class: "ink-button", hidden: true });
  let limit = SHOWN;
  /** @type {any} */ let state = null;
  let chosen = -1;
  let dragged = -1;

  function act(/** @type {string} */ text, /** @type {string} */ label, /** @type {any} */ edit, /** @type {boolean} */ able, pressed = /** @type {boolean | null} */ (null)) {
    const made = element("button", { type: "button", class: "ink-button", "aria-label": label, title: label, text });
    if (pressed != null) made.setAttribute("aria-pressed", String(pressed));
    made.disabled = !able;
    made.addEventListener("click", (/** @type {Event} */ event) => { event.stopPropagation(); onEdit(edit); }, { signal });
    for (const name of ["pointerenter", "focus"]) made.addEventListener(name, () => onCost(edit, label), { signal });
    for (const name of ["pointerleave", "blur"]) made.addEventListener(name, () => onCost(null, ""), { signal });
    return made;
  }

  function row(/** @type {any} */ entry, /** @type {number} */ last) {
    const { index, name } = entry;
    const free = !entry.pinned;
    const cached = entry.cached == null || entry.tokens == null ? "" : entry.cached >= entry.tokens ? "cached" : entry.cached ? `${count(entry.cached)} cached` : "to compute";
    const pick = element("button", { type: "button", class: "ink-entry-name", "aria-pressed": String(index === chosen) }, [
      element("i", { style: `background:${state.modalities[entry.modality]}`, "aria-hidden": "true" }),
      element("span", {}, [element("b", { text: name }), element("small", { text: [entry.role === "user" ? "" : entry.role, entry.detail].filter(Boolean).join(" · ") })]),
    ]);
    pick.addEventListener("click", () => onChoose(index), { signal });
    const item = element("li", {
      class: `ink-entry${entry.disabled ? " is-off" : ""}${entry.pinned ? " is-pinned" : ""}${index === chosen ? " is-chosen" : ""}`, draggable: free ? "true" : "false",
      "data-index": index,
    }, [
      pick,
      element("span", { class: "ink-tokens" }, [element("b", { text: entry.tokens == null ? "off" : count(entry.tokens) }), element("small", { text: cached })]),
      element("span", { class: "ink-buttons" }, [
        act("↑", `Move ${name} up`, { action: "move", index, to: index - 1 }, free && index > 0),
        act("↓", `Move ${name} down`, { action: "move", index, to: index + 1 }, free && index < last),
        act(entry.pinned ? "Unpin" : "Pin", `${entry.pinned ? "Unpin" : "Pin"} ${name}`, { action: entry.pinned ? "unpin" : "pin", index }, entry.pinned || !entry.disabled, entry.pinned),
        act(entry.disabled ? "On" : "Off", `Switch ${name} ${entry.disabled ? "on" : "off"}`, { action: entry.disabled ? "enable" : "disable", index }, free || entry.disabled),
        act("×", `Remove ${name}`, { action: "remove", index }, free),
      ]),
    ]);
    item.addEventListener("dragstart", (/** @type {DragEvent} */ event) => {
      dragged = index;
      event.dataTransfer?.setData("text/x-ink-entry", String(index));
      if (event.dataTransfer) event.dataTransfer.effectAllowed = "move";
    }, { signal });
    item.addEventListener("dragend", () => { dragged = -1; mark(null); onCost(null, ""); }, { signal });
    item.addEventListener("dragover", (/** @type {DragEvent} */ event) => {
      if (dragged < 0) return;
      event.preventDefault();
      const to = target(event, item, index);
      mark(item, event.clientY > middle(item));
      if (to !== dragged) onCost({ action: "move", index: dragged, to }, `Move ${state.entries[dragged].name} to place ${to + 1}`);
    }, { signal });
    item.addEventListener("drop", (/** @type {DragEvent} */ event) => {
      if (dragged < 0) return;
      event.preventDefault();
      event.stopPropagation();
      const to = target(event, item, index);
      const from = dragged;
      dragged = -1;
      mark(null);
      if (to !== from) onEdit({ action: "move", index: from, to });
    }, { signal });
    return item;
  }
  const middle = (/** @type {HTMLElement} */ item) => { const box = item.getBoundingClientRect(); return box.top + box.height / 2; };
  const target = (/** @type {DragEvent} */ event, /** @type {HTMLElement} */ item, /** @type {number} */ index) => dropIndex(dragged, index, event.clientY > middle(item));
  function mark(/** @type {HTMLElement | null} */ item, below = false) {
    for (const other of list.children) other.classList.remove("is-over", "is-under");
    item?.classList.add(below ? "is-under" : "is-over");
  }
  function draw() {
    const held = list.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
    const { entries } = state;
    list.replaceChildren(...entries.slice(0, limit).map((/** @type {any} */ entry) => row(entry, entries.length - 1)));
    list.hidden = !entries.length;
    more.hidden = entries.length <= limit;
    more.textContent = `Show ${count(Math.min(SHOWN, entries.length - limit))} more of ${count(entries.length)}`;
    if (held) { // the rows are new; the keyboard stays where it was
      const again = [...list.querySelectorAll("button")].find((item) => item.getAttribute("aria-label") === held && !item.disabled);
      again?.focus();
    }
  }
  more.addEventListener("click", () => { limit += SHOWN; draw(); }, { signal });
  return {
    el: element("div", {}, [list, more]),
    /** @param {any} given */
    set(given) {
      state = given;
      draw();
    },
    /** @param {number} index */
    setChosen(index) {
      chosen = index;
      if (state) draw();
    },
  };
}
