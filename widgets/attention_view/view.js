// The attention view: query tokens, heads, the row over all keys, parts with weight beside cause, and heat on what a part is.
//
// Traits. From Python: meta, measures (float32 (5,l,h)), palette (see workbench/attention_views.py). Both ways, small: query, layer,
// head (-1 for the mean), selection [start, stop), window [start, stop). Questions: row, parts, heads, tokens, media, profile, mask,
// effects, stop.

import { asFloat32, asUint8 } from "../_shared/bytes.js";
import { button, choice, element } from "../_shared/dom.js";
import { bits, count, percent, place, sentence, signed, spanAt, tokens, visible } from "../_shared/format.js";
import { createLegend } from "../_shared/legend.js";
import { createLife } from "../_shared/life.js";
import { createMatrix } from "../_shared/matrix.js";
import { createPolling } from "../_shared/polling.js";
import { createStrip } from "../_shared/strip.js";
import { createTabled } from "../_shared/table.js";
import { limits, toBytes } from "./lanes.js";
import { createParts } from "./parts.js";
import { createProfile } from "./profile.js";
import { createQueries } from "./queries.js";
import { createSource } from "./source.js";
import { tablesOf } from "./tables.js";

/** @type {[string, string, (v: number) => string][]} what colours the heads, in the order of `measures` */
const MEASURES = [
  ["selection", "weight on the chosen tokens", percent], ["share", "bias's share of the logit", percent], ["bits", "bits moved by the bias", bits],
  ["distance", "mean distance", (v) => `${count(Math.round(v))} tokens`], ["entropy", "entropy", bits],
];
const LANES = ["weight", "content", "bias"];
const IDLE = "Point at a head, a token or a patch, or move with the arrow keys.";

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render(host) {
  const { model, el } = host;
  const meta = model.get("meta");
  const life = createLife(host, { lost: "the capture in memory, unless it was saved, and what masking has shown" });
  const { signal, ask, get, tell, selection, problem } = life;
  const palette = asUint8(model.get("palette"));
  const row = () => ({ query: get("query"), layer: get("layer"), head: get("head") });
  const headName = () => (get("head") < 0 ? "mean over heads" : `head ${get("head")}`);
  let measures = asFloat32(get("measures"));
  let measure = selection() ? 0 : 1;
  /** @type {any} */ let detail = null; // the row in view: {start, width, buckets, values}
  /** @type {{t: number, stop: number, row: number} | null} */ let pointed = null;
  /** @type {any[]} */ let parts = [];
  /** @type {any} */ let effects = { running: null, prefill: null, found: [] };

  // The page.
  const readout = element("p", { class: "ink-readout", "aria-live": "polite", text: IDLE });
  /** @type {(strong: string | null, rest?: any[]) => void} */
  const say = (strong, rest = []) => {
    if (!strong) return rest0();
    return readout.replaceChildren(element("strong", { text: strong }), ...rest.filter(Boolean).map((text) => element("span", { text })));
  };
  const queries = createQueries({ queries: meta.queries, signal, onChoose: (index) => tell("query", index) });
  const matrix = createMatrix({
    rows: meta.layers, cols: meta.heads, title: "Head", label: `${meta.layers.length} layers by ${meta.heads.length} heads`, palette,
    missing: meta.missing, strong: new Set(meta.globals), signal, onHover: readHead,
    onChoose: (cell) => {
      if (cell) tell("layer", meta.layers[cell[0]]);
      tell("head", cell ? meta.heads[cell[1]] : -1);
    },
  });
  const matrixLegend = createLegend(palette, signal);
  const measureChoice = choice("Colour heads by", MEASURES.map(([key, words]) => [key, words]), MEASURES[measure][0], (value) => {
    measure = MEASURES.findIndex(([key]) => key === value);
    showMatrix();
  }, signal);
  const profile = createProfile({ signal, onHover: (words) => say(words) });
  const strip = createStrip({
    meta: { ...meta, layers: LANES, row_word: "lane", row_px: 22 }, palette, signal, onHover: readKeys,
    onWindow: (range) => tell("window", range), onSelect: (range) => tell("selection", range ?? []),
  });
  const stripLegend = createLegend(palette, signal);
  const which = element("span", { class: "ink-shown" });
  const mean = button("Mean over heads", "Show the mean over all heads of this layer", () => tell("head", -1), signal);
  const mask = button("Mask the selection", "Mask the chosen tokens and judge the answer again", () => startMask([selection() ?? []].filter((range) => range.length)), signal);
  const table = createParts({ meta, signal, onChoose: choosePart, onMask: startMask, onStop: () => ask("stop") });
  const source = createSource({ meta, ask, row, signal, chosen: table.setChosen, onHover: (words) => say(words), onSelect: (range) => tell("selection", range) });
  const left = element("div", {}, [element("div", { class: "ink-row" }, [measureChoice.el, matrixLegend.el]), matrix.el]);
  const right = element("div", {}, [profile.el]);
  const chart = element("div", {}, [
    element("div", { class: "ink-split" }, [left, right]),
    element("div", { class: "ink-row" }, [which, mean, element("span", { class: "ink-buttons" }, [
      button("−", "Zoom out", () => strip.zoom(2), signal), button("+", "Zoom in", () => strip.zoom(0.5), signal),
      button("All", "Show all tokens", () => strip.setView(0, meta.tokens), signal),
    ]), mask, stripLegend.el]),
    strip.el,
  ]);
  const under = element("div", { class: "ink-split is-wide" }, [table.el, source.el]);
  const tabled = createTabled({
    chart, signal, onChart: () => resize(),
    tables: () => tablesOf({ meta, measures, measure: MEASURES[measure], at: measure, detail, row: `${which.textContent}` }),
  });
  const kept = { pooled: `summed over spans and buckets of ${tokensWord(meta.finest)}`, topk: `the ${meta.top} largest weights of each row`,
    whole: "every key of each row" }[/** @type {string} */ (meta.keep)];
  const more = meta.queries_in_all > meta.queries.length ? ` (the first ${count(meta.queries.length)} here)` : "";
  const root = element("section", { class: "ink-widget ink-attention", "aria-label": "Attention" }, [
    element("header", { class: "ink-head" }, [element("div", {}, [
      element("p", { class: "ink-title", text: "Attention" }),
      element("p", { class: "ink-facts", text: `${count(meta.queries_in_all)} query token${meta.queries_in_all === 1 ? "" : "s"}${more} over ` +
        `${count(meta.tokens)} tokens · ${meta.layers.length} layers, ${meta.globals.length} of them global · ${meta.heads.length} heads · ${kept}` }),
    ]), tabled.button]),
    ...meta.notices.map((/** @type {string} */ text) => element("p", { class: "ink-notice", text })),
    queries.el, chart, tabled.el, readout, under, problem, element("p", { class: "ink-foot", text: `${meta.foot}${meta.causes ? ` ${meta.causes}` : ""}` }),
  ]);

  function tokensWord(/** @type {number} */ n) {
    return n === 1 ? "one token" : `${count(n)} tokens`;
  }

  // Showing.
  function showMatrix() {
    tabled.refresh();
    const size = meta.layers.length * meta.heads.length;
    const values = measures.slice(measure * size, (measure + 1) * size);
    const [, words, named] = MEASURES[measure];
    const top = limits(values)?.[1] ?? 0;
    matrix.setValues(values, 0, top || 1);
    matrixLegend.set(Number.isNaN(values[0]) ? "choose tokens below" : words, "0", top ? named(top) : "–");
    matrix.setChosen([meta.layers.indexOf(get("layer")), meta.heads.indexOf(get("head"))]);
  }
  function showRow() {
    const query = meta.queries[get("query")];
    const kind = meta.globals.includes(get("layer")) ? "global" : "sliding";
    which.textContent = `Token ${count(query?.t ?? 0)}, layer ${get("layer")} (${kind}), ${headName()}`;
    mean.hidden = get("head") < 0;
    mask.hidden = Boolean(meta.causes) || !selection();
    mask.disabled = Boolean(effects.running);
    if (!detail) return;
    const { bytes, top } = toBytes(detail.values, detail.buckets);
    stripLegend.set("Weight, square-root scale", "0", percent(top));
    strip.setStrips([{ ...detail, rows: 3, values: bytes }]);
    tabled.refresh();
  }

  // Asking.
  async function fetchRow() {
    const [start, stop] = strip.view();
    const found = await ask("row", { ...row(), start, stop, buckets: strip.buckets() });
    if (!found) return;
    detail = { ...found.result, values: asFloat32(found.buffers[0]) };
    showRow();
    if (pointed) readKeys(pointed); // what is pointed at may have been beyond the row that was there
  }
  async function fetchParts() {
    const found = await ask("parts", row());
    if (!found) return;
    parts = found.result.rows;
    const t = meta.queries[get("query")]?.t ?? -1;
    table.setRows(parts, meta.reply_start < 0 ? -1 : t + 1 - meta.reply_start);
    showSource();
  }
  async function fetchHeads() {
    const range = selection();
    const found = await ask("heads", { query: get("query"), ...(range ? { start: range[0], stop: range[1] } : {}) });
    if (!found) return;
    measures = asFloat32(found.buffers[0]);
    showMatrix();
  }
  async function fetchProfile() {
    const found = await ask("profile", { query: get("query"), layer: get("layer") });
    if (!found) return;
    const mixed = found.buffers[1] ? asFloat32(found.buffers[1]) : new Float32Array(0);
    const title = `Bias by distance, layer ${get("layer")}: ${mixed.length ? `${get("head") < 0 ? "heads" : headName()} blue, bank grey` : "the bank"}`;
    profile.set({ reach: found.result.reach, bank: asFloat32(found.buffers[0]), mixed, head: meta.heads.indexOf(get("head")), title });
  }
  const showSource = () => source.show(parts, selection());
  const polling = createPolling(async () => {
    const found = await ask("effects");
    if (!found) return false;
    setEffects(found.result);
    return Boolean(effects.running);
  }, signal);
  function setEffects(/** @type {any} */ state) {
    effects = state;
    life.connection.heard(state.problem);
    table.setEffects(effects);
    showRow();
    const last = effects.found.at(-1);
    if (last && last.drop != null && !effects.running) say(`Without it: ${signed(-last.drop)} nat`, [last.words]);
  }
  async function startMask(/** @type {number[][]} */ ranges) {
    if (!ranges.length) return;
    const found = await ask("mask", { ranges });
    if (!found) return;
    setEffects(found.result);
    polling.start();
  }
  function choosePart(/** @type {any} */ item) {
    tell("selection", item.ranges[0]);
  }

  // Reading out.
  function rest0() {
    const range = selection();
    if (!range) return readout.replaceChildren(IDLE);
    return say(sentence(tokens(range[0], range[1])), [place(spanAt(meta.spans, range[0]), range[0])]);
  }
  function readHead(/** @type {number[] | null} */ cell) {
    if (!cell) return rest0();
    const size = meta.layers.length * meta.heads.length;
    const at = cell[0] * meta.heads.length + cell[1];
    return say(`Layer ${meta.layers[cell[0]]}, head ${meta.heads[cell[1]]}`,
      MEASURES.map(([, words, named], i) => (Number.isNaN(measures[i * size + at]) ? "" : `${words} ${named(measures[i * size + at])}`)));
  }
  function readKeys(/** @type {{t: number, stop: number, row: number} | null} */ at) {
    pointed = at;
    if (!at) return rest0();
    const where = place(spanAt(meta.spans, at.t), at.t);
    const b = detail ? Math.floor((at.t - detail.start) / detail.width) : -1;
    if (!detail || b < 0 || b >= detail.buckets) return say(sentence(tokens(at.t, at.stop)), [where]);
    const [weight, content, bias] = LANES.map((_, lane) => detail.values[lane * detail.buckets + b]);
    const text = detail.texts?.[at.t - detail.start];
    return say(sentence(tokens(at.t, at.stop)), [text && `“${visible(text)}”`, where, `weight ${percent(weight)}`, `content ${signed(content)}`,
      `bias ${signed(bias)}`]);
  }

  // Following the model: Python, another view of this widget, or ourselves.
  const all = () => { queries.setChosen(get("query")); fetchHeads(); fetchRow(); fetchParts(); fetchProfile(); showRow(); };
  const follow = /** @type {[string, () => void][]} */ ([
    ["query", all], ["layer", () => { showMatrix(); fetchRow(); fetchParts(); fetchProfile(); showRow(); }],
    ["head", () => { showMatrix(); fetchRow(); fetchParts(); fetchProfile(); showRow(); }],
    ["selection", () => { strip.setSelection(selection()); fetchHeads(); showRow(); showSource(); rest0(); }],
    ["window", () => {
      const [[start, stop], now] = [get("window"), strip.view()];
      if (start !== now[0] || stop !== now[1]) strip.setView(start, stop, true);
      fetchRow();
    }],
  ]);

  function resize() {
    const width = Math.max(280, Math.floor(chart.clientWidth || under.clientWidth || el.clientWidth));
    const half = width >= 720 ? Math.floor((width - 32) / 2) : width;
    matrix.resize(half);
    profile.resize(half);
    strip.resize(width);
    source.resize(width >= 960 ? Math.floor((width - 32) * 0.42) : width);
  }
  const [from, to] = get("window");
  strip.setView(from, to, true);
  strip.setSelection(selection());
  const end = life.begin(root, follow, { resize, redraw: () => { for (const item of [matrix, profile, strip, source]) item.draw(); } });
  queries.setChosen(get("query"));
  showMatrix();
  showRow();
  fetchRow();
  fetchParts();
  fetchProfile();
  if (selection() || get("query") > 0) fetchHeads();
  if (!meta.causes) polling.start();
  return end;
}
