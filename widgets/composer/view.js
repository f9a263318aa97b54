// The composer: the whole window as a bar, the entries with their edits, what comes in, a preview, and where the tokens are.
//
// Trait from Python: state (see workbench/composing_sessions.py). Questions: state, edit, cost, text, upload, drop, door, preview; an
// answer that changes something carries the whole state, so hosts that carry no news of their own lose nothing.

import { button, choice, element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";
import { createLife } from "../_shared/life.js";
import { Superseded } from "../_shared/rpc.js";
import { createAdding } from "./adding.js";
import { createEntries } from "./entries.js";
import { createPreviews } from "./previews.js";
import { treeOf } from "./tree.js";
import { createWindow } from "./window.js";

const IDLE = "Point at an edit, or move to it, to see what it costs before it is made.";

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render(host) {
  const { model, el } = host;
  const life = createLife(host, { lost: "the context, unless it was saved", timeout_ms: 120_000, again: () => refresh() }); // long documents take time
  const { signal, rpc, ask, problem } = life;
  let state = model.get("state");
  let chosen = -1;
  let page = 0;

  const readout = element("p", { class: "ink-readout", "aria-live": "polite", text: IDLE });
  const facts = element("p", { class: "ink-facts" });
  const why = element("p", { class: "ink-facts" });
  const over = element("p", { class: "ink-problem", role: "alert", hidden: true });
  const notes = element("ul", { class: "ink-notes" });
  const kinds = element("ul", { class: "ink-kinds", "aria-label": "Tokens by kind" });
  const bar = createWindow({ signal, onHover: (words) => { readout.textContent = words ?? IDLE; } });
  const entries = createEntries({ signal, onChoose: choose, onEdit: edit, onCost: cost });
  const previews = createPreviews({ signal, onPage: (to) => { page = to; fetchPreview(); } });
  const tree = element("div", { class: "ink-tree" });
  const empty = element("p", { class: "ink-facts ink-empty", text: "Nothing is here yet: drop a file, paste text, or record." });
  const undo = editButton("Undo", "Take the last change back", { action: "undo" });
  const redo = editButton("Redo", "Make the change again that was taken back", { action: "redo" });
  const adding = createAdding({
    ask: (verb, args, lane) => rpc.ask(verb, args, lane), signal, onState: apply, onRefresh: refresh, onCost: cost,
    onProblem: (words) => { problem.hidden = false; problem.textContent = words; },
  });
  // The effort stands before everything: it is chosen, priced, and then set.
  const effort = choice("Effort", state.settings.efforts.map((/** @type {string} */ name) => [name, name]), state.settings.effort, (value) => {
    set.hidden = value === state.settings.effort;
    cost(value === state.settings.effort ? null : { action: "effort", value }, `Effort ${value}`);
  }, signal);
  const set = button("Set", "Set this effort", () => edit({ action: "effort", value: effort.select.value }), signal);
  set.hidden = true;
  const columns = element("div", { class: "ink-columns" }, [element("div", {}, [empty, entries.el, adding.el]), previews.el]);
  const root = element("section", { class: "ink-widget ink-composer", "aria-label": "Composer" }, [
    element("header", { class: "ink-head" }, [
      element("div", {}, [element("p", { class: "ink-title", text: "Context" }), facts, why]),
      element("span", { class: "ink-buttons" }, [effort.el, set, undo, redo]),
    ]),
    bar.el, kinds, over, readout, problem, columns,
    element("details", { class: "ink-where" }, [element("summary", { text: "Where the tokens are, without the framing of messages" }), tree]), notes,
  ]);

  function editButton(/** @type {string} */ text, /** @type {string} */ label, /** @type {any} */ what) {
    const made = button(text, label, () => edit(what), signal);
    for (const name of ["pointerenter", "focus"]) made.addEventListener(name, () => { if (!made.disabled) cost(what, text); }, { signal });
    for (const name of ["pointerleave", "blur"]) made.addEventListener(name, () => cost(null, ""), { signal });
    return made;
  }

  // Showing.
  function apply(/** @type {any} */ given) {
    if (!given) return;
    if (given.problem) life.connection.heard(given.problem); // the engine is gone, or cannot say what it has cached
    else life.connection.back();
    state = given;
    const { totals, settings, history } = state;
    const took = totals.compute_s == null ? "" : `, about ${totals.compute_s < 10 ? totals.compute_s.toFixed(1) : count(Math.round(totals.compute_s))} s`;
    const cached = totals.cached_tokens == null ? "" : ` · ${count(totals.cached_tokens)} cached, ${count(totals.compute_tokens)} to compute${took}`;
    facts.textContent = `${count(totals.prompt_tokens)} tokens and ${count(totals.reserved_tokens)} for the answer, of ${count(totals.limit_tokens)} (${totals.limit_of})${cached}`;
    why.textContent = totals.reason ? `${totals.reason[0].toUpperCase()}${totals.reason.slice(1)}.` : "";
    why.hidden = !totals.reason;
    over.hidden = totals.left_tokens >= 0;
    over.textContent = `Too long by ${count(-totals.left_tokens)} tokens: take something out, switch it off, or keep less for the answer.`;
    [undo.disabled, redo.disabled] = [!history.undo, !history.redo];
    effort.select.value = settings.effort;
    if (effort.select.value !== settings.effort) effort.select.append(element("option", { value: settings.effort, text: settings.effort }));
    effort.select.value = settings.effort;
    set.hidden = true;
    kinds.replaceChildren(...Object.entries(totals.by_modality).filter(([, tokens]) => tokens).map(([name, tokens]) => element("li", {}, [
      element("i", { style: `background:${state.modalities[name]}`, "aria-hidden": "true" }), `${name} ${count(/** @type {number} */ (tokens))}`])),
    ...(totals.cached_tokens == null ? [] : [element("li", {}, [element("i", { class: "ink-hatched", "aria-hidden": "true" }), "hatched: to compute"])]),
    element("li", {}, [element("i", { class: "ink-kept", "aria-hidden": "true" }), "dashed: kept for the answer"]));
    notes.replaceChildren(...state.notes.map((/** @type {string} */ text) => element("li", { text })));
    notes.hidden = !state.notes.length;
    empty.hidden = state.entries.length > 0;
    bar.set(state);
    if (chosen >= state.entries.length) choose(-1);
    entries.set(state);
    if (tree.closest("details")?.hasAttribute("open")) drawTree();
    else tree.replaceChildren();
  }
  function drawTree() {
    tree.replaceChildren(element("ul", {}, [treeOf(state.tree, state.tree.tokens, state.modalities, true)]));
  }
  root.querySelector(".ink-where")?.addEventListener("toggle", () => { if (!tree.childElementCount) drawTree(); }, { signal });

  // Asking.
  async function edit(/** @type {any} */ what) {
    const before = state.entries[chosen];
    const found = await ask("edit", what, "edit");
    if (!found) return;
    apply(found.result.state);
    if (before && what.action !== "remove") { // the chosen entry may stand elsewhere now
      const at = what.action === "move" && what.index === chosen ? what.to : chosen;
      const same = state.entries[at]?.name === before.name ? at : state.entries.findIndex((/** @type {any} */ entry) => entry.name === before.name && entry.kind === before.kind);
      choose(same);
    } else choose(-1);
    readout.textContent = `Done: ${count(state.totals.prompt_tokens)} tokens now.`;
  }
  async function cost(/** @type {any | null} */ what, /** @type {string} */ words) {
    if (!what) {
      readout.textContent = IDLE;
      return;
    }
    readout.replaceChildren(element("strong", { text: words }), element("span", { text: "…" }));
    try {
      const { result } = await rpc.ask("cost", what, "cost");
      readout.replaceChildren(element("strong", { text: words }), element("span", { class: result.fits ? "" : "ink-problem", text: result.words }),
        ...(result.reason ? [element("span", { class: "ink-facts", text: result.reason })] : []));
    } catch (error) {
      if (error instanceof Superseded || signal.aborted) return;
      readout.replaceChildren(element("strong", { text: words }), element("span", { class: "ink-problem", text: /** @type {Error} */ (error).message }));
    }
  }
  async function refresh() {
    const found = await ask("state");
    if (found) apply(found.result.state);
  }
  function choose(/** @type {number} */ index) {
    chosen = index;
    page = 0;
    entries.setChosen(index);
    fetchPreview();
  }
  async function fetchPreview() {
    if (chosen < 0) return previews.show(null, []);
    const found = await ask("preview", { index: chosen, page });
    if (found) return previews.show(found.result, found.buffers);
    return undefined;
  }
  function resize() {
    const width = Math.max(280, Math.floor(root.clientWidth || el.clientWidth));
    bar.resize(width);
    previews.resize((width >= 800 ? Math.floor((width - 32) * 0.38) : width) - 2); // an outline around the picture
  }
  const end = life.begin(root, [["state", () => apply(model.get("state"))]], {
    resize, redraw: () => { bar.draw(); previews.draw(); }, ended: adding.end,
  });
  apply(state);
  refresh(); // what the engine has cached may have changed since the state was saved
  return end;
}
