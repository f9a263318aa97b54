// The routing map: heat map above, token strip below, one selection between them, and a line that reads out what is pointed at.
//
// Traits. From Python: meta, share, chosen, sink, entropy, sink_mass, palette (see workbench/routing_views.py). Both ways, small:
// metric, stat, selection [start, stop), cell [layer, expert], window [start, stop). Questions: strip, range, token.

import { asFloat32, asUint16, asUint8 } from "../_shared/bytes.js";
import { watchTheme } from "../_shared/canvas.js";
import { button, choice, element } from "../_shared/dom.js";
import { bits, count, percent, place, spanAt, tokens, visible } from "../_shared/format.js";
import { createLegend } from "../_shared/legend.js";
import { createRpc, Superseded } from "../_shared/rpc.js";
import { hideTwin } from "../_shared/twin.js";
import { createHeat } from "./heat.js";
import { createStrip } from "../_shared/strip.js";
import { createTables } from "./table.js";

const METRIC_WORDS = { entropy: "Entropy", sink: "Sink share", expert: "Share of the chosen expert" };
const IDLE = "Point at an expert or a token, or move with the arrow keys.";

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render({ model, el, signal: hostSignal }) {
  const meta = model.get("meta");
  const ending = new AbortController();
  const { signal } = ending;
  const palette = asUint8(model.get("palette"));
  const rpc = createRpc(model);
  const whole = { share: asFloat32(model.get("share")), chosen: asFloat32(model.get("chosen")), sink: asFloat32(model.get("sink")) };
  let load = whole;
  let by = /** @type {"share" | "chosen"} */ ("share");
  /** @type {any} */ let detail = null;
  let excerpt = "";

  const cell = () => { // as [row, expert]
    const [layer, expert] = model.get("cell") ?? [];
    const row = meta.layers.indexOf(layer);
    return row < 0 || expert == null ? null : [row, expert];
  };
  const selection = () => (model.get("selection")?.length === 2 ? model.get("selection") : null);
  const metric = () => /** @type {keyof typeof METRIC_WORDS} */ (model.get("metric"));
  const tell = (/** @type {string} */ name, /** @type {any} */ value) => {
    if (JSON.stringify(model.get(name)) === JSON.stringify(value)) return;
    model.set(name, value);
    model.save_changes();
  };

  // The page.
  const readout = element("p", { class: "ink-readout", "aria-live": "polite", text: IDLE });
  const problem = element("p", { class: "ink-problem", role: "alert", hidden: true });
  const shown = element("span", { class: "ink-shown" });
  const clear = button("Show whole context", "Clear the selection", () => tell("selection", []), signal);
  const toSelection = button("Selection", "Zoom to the selection", () => {
    const range = selection();
    if (range) strip.setView(range[0], range[1]);
  }, signal);
  const heatLegend = createLegend(palette);
  const stripLegend = createLegend(palette);
  const heat = createHeat({ meta, palette, signal, onHover: readCell, onChoose: (at) => chooseCell(at) });
  const strip = createStrip({
    meta, palette, signal, onHover: readTokens, onWindow: (range) => tell("window", range),
    onSelect: (range) => tell("selection", range ?? []),
  });
  const byChoice = choice("Load by", [["share", "weight"], ["chosen", "times chosen"]], by, (value) => {
    by = /** @type {typeof by} */ (value);
    showLoad();
  }, signal);
  const metricChoice = choice("Colour tokens by", [["entropy", "entropy"], ["sink", "sink share"], ["expert", "chosen expert"]],
    metric(), (value) => tell("metric", value), signal);
  const statChoice = choice("A bucket shows its", [["mean", "mean"], ["max", "maximum"]], model.get("stat"),
    (value) => tell("stat", value), signal);
  const asTable = button("As table", "Show the numbers as tables", () => showTable(tables.hidden), signal);
  asTable.setAttribute("aria-pressed", "false");
  const tables = element("div", { hidden: true });
  const chart = element("div", {}, [
    element("div", { class: "ink-row" }, [byChoice.el, shown, clear, heatLegend.el]), heat.el,
    element("div", { class: "ink-row" }, [
      metricChoice.el, statChoice.el,
      element("span", { class: "ink-buttons" }, [
        button("−", "Zoom out", () => strip.zoom(2), signal), button("+", "Zoom in", () => strip.zoom(0.5), signal),
        toSelection,
        button("All", "Show all tokens", () => strip.setView(0, meta.tokens), signal),
      ]), stripLegend.el,
    ]),
    strip.el,
    element("ul", { class: "ink-kinds", "aria-label": "Modalities" }, Object.entries(meta.modalities)
      .filter(([name]) => meta.spans.some((/** @type {any} */ span) => span.modality === name))
      .map(([name, colour]) => element("li", {}, [element("i", { style: `background:${colour}` }), name]))),
  ]);
  const facts = `${count(meta.tokens)} tokens · ${meta.layers.length} layers with ${meta.experts} experts, ${meta.top_k} chosen per ` +
    `token, and ${meta.sinks} sinks that every token uses`;
  const root = element("section", { class: "ink-widget ink-routing", "aria-label": "Routing map" }, [
    element("header", { class: "ink-head" }, [
      element("div", {}, [element("p", { class: "ink-title", text: "Expert routing" }), element("p", { class: "ink-facts", text: facts })]),
      asTable,
    ]),
    ...meta.notices.map((/** @type {string} */ text) => element("p", { class: "ink-notice", text })),
    chart, tables, readout, problem,
    element("p", { class: "ink-foot", text: "Routing shows which experts were used where. It is a correlation, not a cause." }),
  ]);
  el.replaceChildren(root);

  // Showing.
  function showLoad() {
    const top = heat.setLoad(load[by], load.sink);
    const even = by === "chosen" ? meta.top_k / meta.experts : null;
    heatLegend.set(by === "share" ? "Share of the weight" : `Share of the tokens${even ? ` (even: ${percent(even)})` : ""}`,
      "0", percent(top));
    const range = selection();
    shown.textContent = range ? `of ${tokens(range[0], range[1])} (${count(range[1] - range[0])})` : "of the whole context";
    clear.hidden = !range;
    toSelection.disabled = !range;
    if (!tables.hidden) showTable(true);
  }
  function showTable(/** @type {boolean} */ on) {
    [tables.hidden, chart.hidden] = [!on, on];
    asTable.textContent = on ? "As map" : "As table";
    asTable.setAttribute("aria-pressed", String(on));
    const range = selection();
    if (on) {
      tables.replaceChildren(createTables(meta, load[by], load.sink, by === "share" ? "share of the weight" : "share of the tokens",
        range ? tokens(range[0], range[1]) : "whole context"));
      if (!meta.parts) fetchParts();
    } else resize();
  }
  function overview() {
    const values = { entropy: model.get("entropy"), sink: model.get("sink_mass") }[/** @type {string} */ (metric())];
    if (!values || model.get("stat") !== "mean") return null;
    return { ...meta.overview, rows: meta.layers.length, values: asUint8(values) };
  }
  function showStrip() {
    const [low, high] = meta.limits[metric()];
    const named = metric() === "entropy" ? bits : percent;
    const at = cell();
    const title = metric() === "expert" && at ? `Share of expert ${at[1]}, layer ${meta.layers[at[0]]}` : METRIC_WORDS[metric()];
    const clipped = metric() !== "expert"; // the scale ends at the 1 % and 99 % quantiles
    stripLegend.set(title, clipped ? `≤ ${named(low)}` : "0", `${clipped ? "≥ " : ""}${named(high)}`);
    strip.setMarked(at ? at[0] : -1, at ? `${meta.layers[at[0]]}·${at[1]}` : "");
    strip.setStrips([overview(), detail]);
  }

  // Asking.
  const failed = (/** @type {any} */ error) => {
    if (error instanceof Superseded || signal.aborted) return;
    problem.hidden = false;
    problem.textContent = error.message;
  };
  async function fetchStrip() {
    const at = cell();
    if (metric() === "expert" && !at) {
      readout.textContent = "Choose an expert in the map above: the tokens that use it light up.";
      detail = null;
      return showStrip();
    }
    const [start, stop] = strip.view();
    try {
      const { result, buffers } = await rpc.ask("strip", {
        metric: metric(), stat: model.get("stat"), start, stop, buckets: strip.buckets(),
        ...(metric() === "expert" && at ? { layer: meta.layers[at[0]], expert: at[1] } : {}),
      });
      if (result.metric !== metric() || result.stat !== model.get("stat")) return undefined;
      problem.hidden = true;
      detail = { ...result, values: buffers[0] };
      showStrip();
    } catch (error) {
      failed(error);
    }
    return undefined;
  }
  async function fetchParts() {
    try {
      meta.parts = (await rpc.ask("parts", {})).result.parts;
      if (!tables.hidden) showTable(true);
    } catch (error) {
      failed(error);
    }
  }
  async function fetchRange() {
    const range = selection();
    strip.setSelection(range);
    if (!range) {
      load = whole;
      return showLoad();
    }
    try {
      const { result, buffers } = await rpc.ask("range", { start: range[0], stop: range[1] });
      load = { share: asFloat32(buffers[0]), chosen: asFloat32(buffers[1]), sink: asFloat32(buffers[2]) };
      excerpt = result.text;
      problem.hidden = true;
      showLoad();
      readRange(result);
    } catch (error) {
      failed(error);
    }
    return undefined;
  }
  function chooseCell(/** @type {number[] | null} */ at) {
    tell("cell", at ? [meta.layers[at[0]], at[1]] : []);
    if (at) tell("metric", "expert");
    else if (metric() === "expert") tell("metric", "entropy");
    readCell(at);
  }

  // Reading out.
  function say(/** @type {string} */ strong, /** @type {string[]} */ rest) {
    readout.replaceChildren(element("strong", { text: strong }), ...rest.filter(Boolean).map((text) => element("span", { text })));
  }
  function readCell(/** @type {number[] | null} */ at) {
    if (!at) return restRead();
    const index = at[0] * meta.experts + at[1];
    const part = [percent(load.share[index]) + " of the weight", `chosen by ${percent(load.chosen[index])} of the tokens`];
    return say(`Layer ${meta.layers[at[0]]}, expert ${at[1]}`, [...part, `an even share would be ${percent(meta.top_k / meta.experts)}`]);
  }
  function restRead() {
    const range = selection();
    if (range) say(sentence(tokens(range[0], range[1])), [whereOf(range), excerpt && `“${excerpt}”`]);
    else readout.textContent = IDLE;
  }
  const sentence = (/** @type {string} */ text) => text[0].toUpperCase() + text.slice(1);
  function whereOf(/** @type {number[]} */ [start, stop]) {
    const [first, last] = [place(spanAt(meta.spans, start), start), place(spanAt(meta.spans, stop - 1), stop - 1)];
    return first === last ? first : `${first} – ${last}`;
  }
  function readRange(/** @type {any} */ result) {
    say(sentence(tokens(result.start, result.stop)), [whereOf([result.start, result.stop]), excerpt && `“${excerpt}”`,
      `mean entropy ${bits(result.entropy_bits)}`]);
  }
  async function readTokens(/** @type {{t: number, stop: number, row: number} | null} */ at) {
    if (!at) return restRead();
    const where = whereOf([at.t, at.stop]);
    say(sentence(tokens(at.t, at.stop)), [where]);
    try {
      const single = at.stop - at.t === 1;
      const { result, buffers } = await rpc.ask(single ? "token" : "range", single ? { t: at.t } : { start: at.t, stop: at.stop }, "hover");
      if (!single) return say(sentence(tokens(at.t, at.stop)), [where, `mean entropy ${bits(result.entropy_bits)}`]);
      const [expert, share] = [asUint16(buffers[0]), asFloat32(buffers[1])];
      const used = Array.from({ length: meta.top_k }, (_, k) => at.row * meta.top_k + k)
        .map((i) => `${expert[i]} (${percent(share[i])})`).join(", ");
      return say(`Token ${count(at.t)}`, [result.text && `“${visible(result.text)}”`, where, `layer ${meta.layers[at.row]}: experts ${used}`,
        `sinks ${percent(result.sink_mass[at.row])}`, `entropy ${bits(result.entropy_bits[at.row])}`]);
    } catch (error) {
      return failed(error);
    }
  }

  // Following the model: Python, another view of this widget, or ourselves.
  const follow = /** @type {[string, () => void][]} */ ([
    ["selection", fetchRange],
    ["cell", () => { heat.setChosen(cell()); detail = null; showStrip(); fetchStrip(); }],
    ["metric", () => { metricChoice.select.value = metric(); detail = null; showStrip(); fetchStrip(); }],
    ["stat", () => { statChoice.select.value = model.get("stat"); detail = null; fetchStrip(); }],
    ["window", () => {
      const [start, stop] = model.get("window");
      const now = strip.view();
      if (start !== now[0] || stop !== now[1]) strip.setView(start, stop, true);
      fetchStrip();
    }],
  ]).map(([name, changed]) => /** @type {[string, () => void]} */ ([`change:${name}`, changed]));
  for (const [name, changed] of follow) model.on(name, changed);

  function resize() {
    const width = Math.max(320, Math.floor(chart.clientWidth || el.clientWidth));
    heat.resize(width);
    strip.resize(width);
    hideTwin(el, true); // here, because a first size means that the element is in its page
  }
  const observer = new ResizeObserver(resize);
  observer.observe(el);
  const stopWatching = watchTheme(() => { heat.draw(); strip.draw(); });

  const [from, to] = model.get("window");
  strip.setView(from, to, true);
  heat.setChosen(cell());
  resize();
  showLoad();
  showStrip();
  fetchStrip();
  if (selection()) fetchRange();

  const end = () => {
    ending.abort();
    for (const [name, changed] of follow) model.off(name, changed);
    observer.disconnect();
    stopWatching();
    rpc.dispose();
    hideTwin(el, false);
  };
  hostSignal?.addEventListener("abort", end);
  return end;
}
