// The routing map: heat map above, token strip below, pictures and recordings under it, one selection between them, and a line that
// reads out what is pointed at.
//
// Traits. From Python: meta, share, chosen, sink, entropy, sink_mass, palette, diverging (see workbench/routing_views.py). Both ways,
// small: metric, stat, difference, selection [start, stop), region (ranges inside it), cell [layer, expert], window [start, stop).
// Questions: strip, range, token, parts, media, favourites, against.

import { asFloat32, asUint16, asUint8 } from "../_shared/bytes.js";
import { button, choice, element } from "../_shared/dom.js";
import { bits, count, percent, sentence, tokens, visible, whereOf } from "../_shared/format.js";
import { createLegend } from "../_shared/legend.js";
import { createLife } from "../_shared/life.js";
import { createMatrix } from "../_shared/matrix.js";
import { createStrip } from "../_shared/strip.js";
import { createTabled } from "../_shared/table.js";
import { minus, signedPercent } from "./difference.js";
import { createFavourites } from "./favourites.js";
import { createPlaces } from "./places.js";
import { createSinks } from "./sinks.js";
import { createTables } from "./table.js";

const METRIC_WORDS = { entropy: "Entropy", sink: "Sink share", expert: "Share of the chosen expert" };
const IDLE = "Point at an expert or a token, or move with the arrow keys.";
const loadOf = (/** @type {any[]} */ [share, chosen, sink]) => ({ share: asFloat32(share), chosen: asFloat32(chosen), sink: asFloat32(sink) });

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render(host) {
  const { model, el } = host;
  const life = createLife(host, { lost: "the capture in memory, unless it was saved" });
  const { signal, ask, get, tell, selection, problem } = life;
  const meta = get("meta");
  const [palette, diverging] = [asUint8(get("palette")), asUint8(get("diverging"))];
  const whole = loadOf(["share", "chosen", "sink"].map(get));
  let load = whole;
  /** @type {typeof whole | null} */ let other = null; // the other capture's, where a difference is shown
  let by = /** @type {"share" | "chosen"} */ ("share");
  /** @type {any} */ let detail = null;
  let excerpt = "";

  const cell = () => { // as [row, expert]
    const [layer, expert] = get("cell") ?? [];
    const row = meta.layers.indexOf(layer);
    return row < 0 || expert == null ? null : [row, expert];
  };
  const metric = () => /** @type {keyof typeof METRIC_WORDS} */ (get("metric"));
  const differs = () => Boolean(meta.against && get("difference"));
  const stripDiffers = () => differs() && meta.against.same_tokens;
  /** The chosen ranges: the parts of a region, or the selection. */
  const ranges = () => (get("region")?.length ? get("region") : selection() ? [selection()] : []);

  // The page.
  const readout = element("p", { class: "ink-readout", "aria-live": "polite", text: IDLE });
  const shown = element("span", { class: "ink-shown" });
  const choose = (/** @type {number[][]} */ found) => {
    tell("region", found.length > 1 ? found : []);
    tell("selection", found.length ? [found[0][0], found[found.length - 1][1]] : []);
  };
  const clear = button("Show whole context", "Clear the selection", () => choose([]), signal);
  const toSelection = button("Selection", "Zoom to the selection", () => {
    const range = selection();
    if (range) strip.setView(range[0], range[1]);
  }, signal);
  const [heatLegend, stripLegend] = [createLegend(palette, signal), createLegend(palette, signal)];
  const sinks = createSinks({ meta });
  const heat = createMatrix({
    rows: meta.layers, cols: Array.from({ length: meta.experts }, (_, e) => e), title: "Experts", palette, missing: meta.missing, signal,
    label: `Use of ${meta.experts} experts in ${meta.layers.length} layers`, beside: sinks.beside, onHover: readCell, onChoose: chooseCell,
  });
  const strip = createStrip({
    meta, palette, signal, onWindow: (range) => tell("window", range), onSelect: (range) => choose(range ? [range] : []),
    onHover: (at) => { places.setMarked(at ? at.t : null); readTokens(at); },
  });
  const places = createPlaces({
    meta, signal, ask, strip: askedStrip, look: () => ({ palette: stripDiffers() ? diverging : palette, words: stripWords().toLowerCase() }), onBrush: choose,
    onHover: (t) => { strip.setHovered(t); readTokens(t == null ? null : { t, stop: t + 1, row: Math.max(0, cell()?.[0] ?? 0) }); },
  });
  const favourites = createFavourites({ meta, signal, ask, cell, onChoose: (range) => choose([range]) });
  const byChoice = choice("Load by", [["share", "weight"], ["chosen", "times chosen"]], by, (value) => {
    by = /** @type {typeof by} */ (value);
    showLoad();
  }, signal);
  const ofChoice = choice("Show", [["this", "this capture"], ["difference", "what it has more than the other"]], differs() ? "difference" : "this",
    (value) => tell("difference", value === "difference"), signal);
  ofChoice.el.hidden = !meta.against;
  const metricChoice = choice("Colour tokens by", [["entropy", "entropy"], ["sink", "sink share"], ["expert", "chosen expert"]],
    metric(), (value) => tell("metric", value), signal);
  const statChoice = choice("A bucket shows its", [["mean", "mean"], ["max", "maximum"]], get("stat"), (value) => tell("stat", value), signal);
  const chart = element("div", {}, [
    element("div", { class: "ink-row" }, [byChoice.el, ofChoice.el, shown, clear, heatLegend.el]), heat.el, favourites.el,
    element("div", { class: "ink-row" }, [
      metricChoice.el, statChoice.el,
      element("span", { class: "ink-buttons" }, [
        button("−", "Zoom out", () => strip.zoom(2), signal), button("+", "Zoom in", () => strip.zoom(0.5), signal), toSelection,
        button("All", "Show all tokens", () => strip.setView(0, meta.tokens), signal),
      ]), stripLegend.el,
    ]),
    strip.el,
    element("ul", { class: "ink-kinds", "aria-label": "Modalities" }, Object.entries(meta.modalities)
      .filter(([name]) => meta.spans.some((/** @type {any} */ span) => span.modality === name))
      .map(([name, colour]) => element("li", {}, [element("i", { style: `background:${colour}`, "aria-hidden": "true" }), name]))),
  ]);
  const tabled = createTabled({ chart, signal, onChart: () => resize(), tables: () => {
    if (!meta.parts) fetchParts();
    const range = selection();
    const what = `share of the ${by === "share" ? "weight" : "tokens"}${differs() ? ", more than the other capture" : ""}`;
    return createTables(meta, values(), load.sink, what, range ? tokens(range[0], range[1]) : "whole context");
  } });
  const facts = `${count(meta.tokens)} tokens · ${meta.layers.length} layers with ${meta.experts} experts, ${meta.top_k} chosen per ` +
    `token, and ${meta.sinks} sinks that every token uses`;
  const root = element("section", { class: "ink-widget ink-routing", "aria-label": "Routing map" }, [
    element("header", { class: "ink-head" }, [
      element("div", {}, [element("p", { class: "ink-title", text: "Expert routing" }), element("p", { class: "ink-facts", text: facts })]), tabled.button,
    ]),
    ...meta.notices.map((/** @type {string} */ text) => element("p", { class: "ink-notice", text })),
    chart, tabled.el, readout, problem, places.el,
    element("p", { class: "ink-foot", text: "Routing shows which experts were used where. It is a correlation, not a cause." }),
  ]);

  // Showing.
  const values = () => (differs() && other ? minus(load[by], other[by]) : load[by]);
  function showLoad() {
    const drawn = values();
    let top = 0;
    for (const value of drawn) top = Math.max(top, Math.abs(value) || 0);
    sinks.set(load.sink, differs() && other ? other.sink : null);
    const what = by === "share" ? "Share of the weight" : "Share of the tokens";
    if (differs()) {
      heat.setValues(drawn, -top || -1, top || 1, diverging);
      heatLegend.set(`${what}, more than the other`, signedPercent(-top), signedPercent(top), diverging);
    } else {
      heat.setValues(drawn, 0, top || 1);
      heatLegend.set(`${what}${by === "chosen" ? ` (even: ${percent(meta.top_k / meta.experts)})` : ""}`, "0", percent(top));
    }
    const [range, found] = [selection(), ranges()];
    const size = found.reduce((/** @type {number} */ sum, /** @type {number[]} */ [from, to]) => sum + to - from, 0);
    shown.textContent = range ? `of ${found.length > 1 ? `${count(size)} patches in ` : ""}${tokens(range[0], range[1])}${found.length > 1 ? "" : ` (${count(size)})`}`
      : "of the whole context";
    clear.hidden = !range;
    toSelection.disabled = !range;
    tabled.refresh();
  }
  function overview() {
    const bytes = { entropy: get("entropy"), sink: get("sink_mass") }[/** @type {string} */ (metric())];
    return bytes && get("stat") === "mean" && !stripDiffers() ? { ...meta.overview, rows: meta.layers.length, values: asUint8(bytes) } : null;
  }
  function stripWords() {
    const at = cell();
    const title = metric() === "expert" && at ? `Share of expert ${at[1]}, layer ${meta.layers[at[0]]}` : METRIC_WORDS[metric()];
    return stripDiffers() ? `${title}, more than the other` : title;
  }
  function showStrip() {
    const [low, high] = (stripDiffers() ? meta.against : meta).limits[metric()];
    const at = cell();
    const signed = stripDiffers() && metric() !== "entropy" ? signedPercent : metric() === "entropy" ? bits : percent;
    const clipped = metric() !== "expert" || stripDiffers(); // the scale ends at the 1 % and 99 % quantiles
    stripLegend.set(stripWords(), clipped ? `≤ ${signed(low)}` : "0", `${clipped ? "≥ " : ""}${signed(high)}`, stripDiffers() ? diverging : palette);
    strip.setMarked(at ? at[0] : -1, at ? `${meta.layers[at[0]]}·${at[1]}` : "");
    strip.setStrips([overview(), detail], stripDiffers() ? diverging : palette);
  }

  // Asking.
  /** What colours tokens now, as `strip` is asked; null while no expert is chosen. */
  function askedStrip() {
    const at = cell();
    if (metric() === "expert" && !at) return null;
    return { metric: metric(), stat: get("stat"), ...(stripDiffers() ? { difference: true } : {}),
      ...(metric() === "expert" && at ? { layer: meta.layers[at[0]], expert: at[1] } : {}) };
  }
  async function fetchStrip() {
    const asked = askedStrip();
    if (!asked) {
      readout.textContent = "Choose an expert in the map above: the tokens that use it light up.";
      detail = null;
      return showStrip();
    }
    const [start, stop] = strip.view();
    const found = await ask("strip", { ...asked, start, stop, buckets: strip.buckets() });
    if (!found || found.result.metric !== metric() || found.result.stat !== get("stat")) return undefined;
    detail = { ...found.result, values: found.buffers[0] };
    return showStrip();
  }
  async function fetchParts() {
    const found = await ask("parts");
    if (!found) return;
    meta.parts = found.result.parts;
    tabled.refresh();
  }
  async function fetchRange() {
    const range = selection();
    const asked = { start: range?.[0] ?? 0, stop: range?.[1] ?? meta.tokens, ...(get("region")?.length ? { ranges: get("region") } : {}) };
    strip.setSelection(range);
    places.setSelection(ranges());
    if (differs()) {
      const found = await ask("against", asked);
      if (!found) return;
      other = loadOf(found.buffers);
    }
    if (!range) {
      load = whole;
      showLoad();
      return;
    }
    const found = await ask("range", asked);
    if (!found) return;
    load = loadOf(found.buffers);
    excerpt = found.result.text;
    showLoad();
    readRange(found.result);
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
    const more = differs() && other ? [`the other has ${percent(other.share[index])}`] : [];
    return say(`Layer ${meta.layers[at[0]]}, expert ${at[1]}`, [`${percent(load.share[index])} of the weight`, ...more,
      `chosen by ${percent(load.chosen[index])} of the tokens`, `an even share would be ${percent(meta.top_k / meta.experts)}`]);
  }
  function restRead() {
    const range = selection();
    if (range) say(sentence(tokens(range[0], range[1])), [whereOf(meta.spans, range), excerpt && `“${excerpt}”`]);
    else readout.textContent = IDLE;
  }
  function readRange(/** @type {any} */ result) {
    say(sentence(tokens(result.start, result.stop)), [whereOf(meta.spans, [result.start, result.stop]), excerpt && `“${excerpt}”`,
      `mean entropy ${bits(result.entropy_bits)}`]);
  }
  async function readTokens(/** @type {{t: number, stop: number, row: number} | null} */ at) {
    if (!at) return restRead();
    const where = whereOf(meta.spans, [at.t, at.stop]);
    say(sentence(tokens(at.t, at.stop)), [where]);
    const single = at.stop - at.t === 1;
    const found = await ask(single ? "token" : "range", single ? { t: at.t } : { start: at.t, stop: at.stop }, "hover");
    if (!found) return undefined;
    const { result, buffers } = found;
    if (!single) return say(sentence(tokens(at.t, at.stop)), [where, `mean entropy ${bits(result.entropy_bits)}`]);
    const [expert, share] = [asUint16(buffers[0]), asFloat32(buffers[1])];
    const used = Array.from({ length: meta.top_k }, (_, k) => at.row * meta.top_k + k).map((i) => `${expert[i]} (${percent(share[i])})`).join(", ");
    return say(`Token ${count(at.t)}`, [result.text && `“${visible(result.text)}”`, where, `layer ${meta.layers[at.row]}: experts ${used}`,
      `sinks ${percent(result.sink_mass[at.row])}`, `entropy ${bits(result.entropy_bits[at.row])}`]);
  }

  // Following the model: Python, another view of this widget, or ourselves.
  const recoloured = () => { detail = null; showStrip(); fetchStrip(); places.colour(); };
  const follow = /** @type {[string, () => void][]} */ ([
    ["selection", () => {
      const [range, region] = [selection(), get("region") ?? []];
      if (region.length && (!range || region[0][0] !== range[0] || region[region.length - 1][1] !== range[1])) tell("region", []); // another choice
      fetchRange();
    }],
    ["region", fetchRange],
    ["cell", () => { heat.setChosen(cell()); favourites.follow(); recoloured(); }],
    ["metric", () => { metricChoice.select.value = metric(); recoloured(); }],
    ["stat", () => { statChoice.select.value = get("stat"); recoloured(); }],
    ["difference", () => { ofChoice.select.value = differs() ? "difference" : "this"; fetchRange(); recoloured(); }],
    ["window", () => {
      const [[start, stop], now] = [get("window"), strip.view()];
      if (start !== now[0] || stop !== now[1]) strip.setView(start, stop, true);
      fetchStrip();
    }],
  ]);

  function resize() {
    const width = Math.max(280, Math.floor(chart.clientWidth || el.clientWidth));
    for (const item of [heat, strip, places]) item.resize(width);
  }
  const [from, to] = get("window");
  strip.setView(from, to, true);
  heat.setChosen(cell());
  favourites.follow();
  const end = life.begin(root, follow, { resize, redraw: () => { for (const item of [heat, strip, places]) item.draw(); } });
  showLoad();
  showStrip();
  fetchStrip();
  places.begin();
  if (selection() || differs()) fetchRange();
  return end;
}
