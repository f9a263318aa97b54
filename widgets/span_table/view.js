// The span table: a list of all spans that makes only the rows in view, filters by kind and name, and shares the token selection.
//
// Traits. From Python: meta, starts (uint32), kinds (uint8). Both ways: selection [start, stop). Question: excerpt.
// Keyboard: arrows, Page and Home/End move the current row, Enter selects it, Escape lets go. Screen readers get a grid whose current
// row is named by aria-activedescendant, with the true row count.

import { asUint8 } from "../_shared/bytes.js";
import { frame } from "../_shared/canvas.js";
import { element } from "../_shared/dom.js";
import { count, percent, tokens } from "../_shared/format.js";
import { bindKeys } from "../_shared/keys.js";
import { createLife } from "../_shared/life.js";
import { Superseded } from "../_shared/rpc.js";
import { filterSpans, uint32 } from "./filter.js";

const ROW_PX = 28;
const SHOWN_ROWS = 12;
const OVERSCAN = 6;
let instances = 0;

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render(host) {
  const { model } = host;
  const { signal, rpc, begin, tell, selection: selected } = createLife(host, { lost: "what was rendered or captured, unless it was saved" });
  const meta = model.get("meta");
  const starts = uint32(asUint8(model.get("starts")));
  const kinds = asUint8(model.get("kinds"));
  const stopOf = (/** @type {number} */ i) => (i + 1 < starts.length ? starts[i + 1] : meta.tokens);
  const largest = starts.reduce((most, start, i) => Math.max(most, stopOf(i) - start), 1);
  const name = `ink-spans-${(instances += 1)}`;
  const hidden = new Set([3]); // framing, until it is asked for
  let search = "";
  /** @type {number[]} */ let rows = [];
  let current = 0; // index into rows

  const chips = meta.modalities.map((/** @type {[string, string, number]} */ [label, colour, total], /** @type {number} */ kind) => {
    const chip = element("button", { type: "button", class: "ink-chip", "aria-pressed": String(!hidden.has(kind)) }, [
      element("i", { style: `background:${colour}` }), `${label} `, element("b", { text: count(total) }),
    ]);
    chip.disabled = total === 0;
    chip.addEventListener("click", () => {
      if (hidden.has(kind)) hidden.delete(kind);
      else hidden.add(kind);
      chip.setAttribute("aria-pressed", String(!hidden.has(kind)));
      refilter();
    }, { signal });
    return chip;
  });
  const find = element("input", { type: "search", class: "ink-search", placeholder: "Find a part", "aria-label": "Find a part by name" });
  find.addEventListener("input", () => {
    search = find.value;
    refilter();
  }, { signal });
  const sizer = element("div", { class: "ink-sizer" });
  const scroll = element("div", {
    class: "ink-scroll", tabindex: "0", role: "grid", "aria-label": "Spans", "aria-colcount": "4", style: `max-height:${ROW_PX * SHOWN_ROWS}px`,
  }, [sizer]);
  const head = element("div", { class: "ink-cols ink-colheads", "aria-hidden": "true" },
    ["Span", "Place in the source", "Tokens", "Count"].map((text) => element("span", { text })));
  const empty = element("p", { class: "ink-facts ink-empty", text: "No span matches. Show more kinds or change the search.", hidden: true });
  const readout = element("p", { class: "ink-readout", "aria-live": "polite" });
  const root = element("section", { class: "ink-widget ink-spans", "aria-label": "Spans" }, [
    element("header", { class: "ink-head" }, [element("div", {}, [
      element("p", { class: "ink-title", text: "Spans" }),
      element("p", { class: "ink-facts", text: `${count(starts.length)} spans cover ${count(meta.tokens)} tokens exactly once` }),
    ])]),
    element("div", { class: "ink-row" }, [element("span", { class: "ink-chips", role: "group", "aria-label": "Kinds shown" }, chips), find]),
    head, scroll, empty, readout,
  ]);

  const covers = (/** @type {number} */ i) => {
    const range = selected();
    return Boolean(range && starts[i] < range[1] && stopOf(i) > range[0]);
  };

  function refilter() {
    const at = rows[current];
    rows = filterSpans(meta.labels, kinds, hidden, search);
    const kept = rows.indexOf(at);
    current = Math.max(0, kept);
    sizer.style.height = `${rows.length * ROW_PX}px`;
    scroll.setAttribute("aria-rowcount", String(rows.length));
    empty.hidden = rows.length > 0;
    scroll.hidden = head.hidden = rows.length === 0;
    draw();
  }

  const draw = frame(() => {
    const first = Math.max(0, Math.floor(scroll.scrollTop / ROW_PX) - OVERSCAN);
    const last = Math.min(rows.length, first + SHOWN_ROWS + 2 * OVERSCAN);
    const made = [];
    for (let at = first; at < last; at += 1) made.push(makeRow(at));
    sizer.replaceChildren(...made);
    if (rows.length) scroll.setAttribute("aria-activedescendant", `${name}-${rows[current]}`);
    else scroll.removeAttribute("aria-activedescendant");
  });

  function makeRow(/** @type {number} */ at) {
    const i = rows[at];
    const [long, colour] = [stopOf(i) - starts[i], meta.modalities[kinds[i]][1]];
    const bar = element("i", { class: "ink-bar", style: `width:${Math.max(2, (long / largest) * 64)}px;background:${colour}` });
    const row = element("div", {
      id: `${name}-${i}`, role: "row", "aria-rowindex": at + 1, "aria-selected": String(covers(i)),
      class: `ink-cols ink-span${at === current ? " is-current" : ""}`, style: `top:${at * ROW_PX}px`,
    }, [
      element("span", { role: "rowheader", title: meta.labels[i] }, [
        element("i", { class: "ink-swatch", style: `background:${colour}`, "aria-hidden": "true" }), meta.labels[i],
      ]),
      element("span", { role: "gridcell", text: meta.places[i] || "–" }),
      element("span", { role: "gridcell", class: "ink-number", text: tokens(starts[i], stopOf(i)).replace(/^tokens? /, "") }),
      element("span", { role: "gridcell", class: "ink-count" }, [element("b", { text: count(long) }), bar]),
    ]);
    row.addEventListener("click", () => choose(at), { signal });
    return row;
  }

  function choose(/** @type {number} */ at) {
    current = at;
    const i = rows[at];
    if (i == null) return;
    tell("selection", [starts[i], stopOf(i)]);
    draw();
    read();
  }
  function move(/** @type {number} */ to) {
    if (!rows.length) return;
    current = Math.max(0, Math.min(rows.length - 1, to));
    const top = current * ROW_PX;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    if (top + ROW_PX > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + ROW_PX - scroll.clientHeight;
    draw();
    read();
  }
  async function read() {
    const i = rows[current];
    if (i == null) return;
    const long = stopOf(i) - starts[i];
    const words = `${meta.labels[i]} · ${tokens(starts[i], stopOf(i))} · ${count(long)} of ${count(meta.tokens)} (${percent(long / meta.tokens)})`;
    readout.replaceChildren(element("strong", { text: words }));
    try {
      const { result } = await rpc.ask("excerpt", { index: i });
      if (rows[current] === i && result.text) readout.append(element("span", { text: `“${result.text}”` }));
    } catch (error) {
      if (!(error instanceof Superseded) && !signal.aborted) readout.append(element("span", { class: "ink-problem", text: String(/** @type {Error} */ (error).message) }));
    }
  }
  bindKeys(scroll, {
    up: () => move(current - 1), down: () => move(current + 1), pageUp: () => move(current - SHOWN_ROWS), pageDown: () => move(current + SHOWN_ROWS),
    home: () => move(0), end: () => move(rows.length - 1), choose: () => choose(current),
    leave: () => tell("selection", []),
  }, signal);
  scroll.addEventListener("scroll", draw, { signal, passive: true });
  const follow = () => {
    const range = selected();
    if (range) {
      const at = rows.findIndex((i) => starts[i] < range[1] && stopOf(i) > range[0]);
      if (at >= 0 && !covers(rows[current])) move(at);
    }
    draw();
  };
  const end = begin(root, [["selection", follow]]);
  refilter();
  readout.textContent = "Choose a span to read its beginning; other views follow.";
  follow();
  return end;
}
