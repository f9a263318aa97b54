// The convolution view: kernels by site and layer, all tokens by what a convolution adds, its taps, and the answer without it.
//
// Traits. From Python: meta, kernels (float32 (l,site,tap,5)), palette, diverging (see workbench/sconv_views.py). Both ways, small:
// metric, site, tap, layer, stat, selection [start, stop), window [start, stop). Questions: strip, kernel, taps, token, without,
// effects, stop.

import { asFloat32, asUint8 } from "../_shared/bytes.js";
import { button, choice, element } from "../_shared/dom.js";
import { count, percent, place, sentence, spanAt, tokens, visible } from "../_shared/format.js";
import { createLegend } from "../_shared/legend.js";
import { createLife } from "../_shared/life.js";
import { createPolling } from "../_shared/polling.js";
import { createStrip } from "../_shared/strip.js";
import { createTabled } from "../_shared/table.js";
import { createAsking } from "./asking.js";
import { createKernel } from "./kernel.js";
import { createKernels } from "./kernels.js";
import { tablesOf } from "./tables.js";
import { createTaps } from "./taps.js";

const IDLE = "Point at a kernel or a token, or move with the arrow keys.";
const number = (/** @type {number | null} */ value) => (value == null ? "–" : value.toFixed(2).replace("-", "−"));

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render(host) {
  const { model, el } = host;
  const meta = model.get("meta");
  const life = createLife(host, { lost: "the capture in memory, unless it was saved, and what was asked again" });
  const { signal, ask, get, tell, selection, problem } = life;
  const palette = asUint8(model.get("palette"));
  const siteWords = (/** @type {string} */ site) => meta.site_words[site];
  const tapName = (/** @type {number} */ tap) => (tap ? `−${tap}` : "0");

  // The page.
  const readout = element("p", { class: "ink-readout", "aria-live": "polite", text: IDLE });
  /** @type {(strong: string | null, rest?: any[]) => void} */
  const say = (strong, rest = []) => {
    if (!strong) return restRead();
    return readout.replaceChildren(element("strong", { text: strong }), ...rest.filter(Boolean).map((text) => element("span", { text })));
  };
  const kernels = createKernels({
    meta, kernels: asFloat32(get("kernels")), signal,
    onHover: (at) => (at ? say(`Layer ${at.layer}, ${siteWords(at.site)}`, [`median weight by tap, furthest back first: ${at.median.map(number).reverse().join(", ")}`]) : restRead()),
    onChoose: (layer, site) => { tell("layer", layer); tell("site", site); },
  });
  const kernel = createKernel({ palette: asUint8(get("diverging")), signal, onHover: (words) => say(words) });
  const taps = createTaps({ meta });
  const strip = createStrip({
    meta, palette, signal, onHover: readTokens, onWindow: (range) => tell("window", range), onSelect: (range) => tell("selection", range ?? []),
  });
  const legend = createLegend(palette, signal);
  const siteChoice = choice("Site", meta.sites.map((/** @type {string} */ site) => [site, siteWords(site)]), get("site"), (value) => tell("site", value), signal);
  const metrics = /** @type {[string, string][]} */ ([["ratio", "what it adds, times its input"], ["cosine", "cosine to its input"]]);
  for (let tap = meta.taps - 1; tap >= 0; tap -= 1) metrics.push([`tap${tap}`, `share of tap ${tapName(tap)}`]);
  const metricKey = () => (get("metric") === "tap" ? `tap${get("tap")}` : get("metric"));
  const metricWords = () => /** @type {any} */ (metrics.find(([key]) => key === metricKey()))[1];
  const named = () => (get("metric") !== "tap" ? number : (/** @type {number} */ v) => (v < 0 ? `−${percent(-v)}` : percent(v)));
  const metricChoice = choice("Colour tokens by", metrics, metricKey(), (value) => {
    if (!value.startsWith("tap")) return tell("metric", value);
    tell("tap", Number(value.slice(3)));
    return tell("metric", "tap");
  }, signal);
  const statChoice = choice("A bucket shows its", [["mean", "mean"], ["max", "maximum"]], get("stat"), (value) => tell("stat", value), signal);
  const asking = createAsking({
    meta, layer: () => get("layer"), signal, onStop: () => ask("stop"),
    onAsk: async (sites, layers) => {
      const found = await ask("without", { sites, layers });
      if (!found) return;
      asking.set(found.result);
      polling.start();
    },
  });
  const polling = createPolling(async () => {
    const found = await ask("effects");
    if (found) {
      asking.set(found.result);
      life.connection.heard(found.result.problem);
    }
    return Boolean(found?.result.running);
  }, signal);
  const loading = element("p", { class: "ink-facts", role: "status", text: "Reading the capture…" });
  const chart = element("div", {}, [
    kernels.el, kernel.el,
    element("div", { class: "ink-row" }, [
      siteChoice.el, metricChoice.el, statChoice.el, element("span", { class: "ink-buttons" }, [
        button("−", "Zoom out", () => strip.zoom(2), signal), button("+", "Zoom in", () => strip.zoom(0.5), signal),
        button("All", "Show all tokens", () => strip.setView(0, meta.tokens), signal),
      ]), legend.el,
    ]),
    loading, strip.el,
  ]);
  const some = meta.recorded < meta.tokens ? `, ${count(meta.recorded)} of them recorded` : "";
  /** @type {any} */ let shown = null; // the strip in view
  const tabled = createTabled({
    chart, signal, onChart: () => resize(),
    tables: () => tablesOf({ meta, kernels: asFloat32(get("kernels")), strip: shown, what: `${siteWords(get("site"))}, ${metricWords()}`, named: named() }),
  });
  const root = element("section", { class: "ink-widget ink-sconv", "aria-label": "Short convolutions" }, [
    element("header", { class: "ink-head" }, [element("div", {}, [
      element("p", { class: "ink-title", text: "Short convolutions" }),
      element("p", { class: "ink-facts", text: `${count(meta.tokens)} tokens${some} · ${meta.layers.length} layers with ${meta.sites.length} sites, ` +
        `${meta.kernel_taps} taps each · bands: half and 80 % of the channels, line: median` }),
    ]), tabled.button]),
    ...meta.notices.map((/** @type {string} */ text) => element("p", { class: "ink-notice", text })),
    chart, tabled.el, readout, taps.el, asking.el, problem,
    element("p", { class: "ink-foot", text: "Norms show how much a convolution adds, not what the answer owes to it: ask again without it for that." }),
  ]);

  // Asking.
  async function fetchStrip() {
    const [start, stop] = strip.view();
    const asked = { metric: get("metric"), site: get("site"), tap: get("tap"), stat: get("stat"), start, stop, buckets: strip.buckets() };
    const found = await ask("strip", asked);
    loading.hidden = true;
    if (!found || found.result.metric !== get("metric") || found.result.site !== get("site")) return;
    const [low, high] = found.result.limits;
    legend.set(metricWords(), `≤ ${named()(low)}`, `≥ ${named()(high)}`);
    strip.setMarked(meta.layers.indexOf(get("layer")), String(get("layer")));
    shown = { ...found.result, values: found.buffers[0] };
    strip.setStrips([shown]);
    tabled.refresh();
  }
  async function fetchKernel() {
    kernels.setChosen(get("layer"), get("site"));
    const found = await ask("kernel", { layer: get("layer"), site: get("site") });
    if (!found) return;
    kernel.set({ ...found.result, values: asFloat32(found.buffers[0]), title: `Kernel of layer ${get("layer")}, ${siteWords(get("site"))}` });
  }
  async function fetchTaps() {
    const range = selection() ?? [0, meta.tokens];
    const found = await ask("taps", { layer: get("layer"), site: get("site"), start: range[0], stop: range[1] });
    if (found) taps.set(`layer ${get("layer")}, ${siteWords(get("site"))}, ${selection() ? tokens(range[0], range[1]) : "all tokens"}`, found.result.groups);
  }

  // Reading out.
  function restRead() {
    const range = selection();
    if (!range) return readout.replaceChildren(IDLE);
    return say(sentence(tokens(range[0], range[1])), [place(spanAt(meta.spans, range[0]), range[0])]);
  }
  async function readTokens(/** @type {{t: number, stop: number, row: number} | null} */ at) {
    if (!at) return restRead();
    const where = place(spanAt(meta.spans, at.t), at.t);
    say(sentence(tokens(at.t, at.stop)), [where]);
    if (at.stop - at.t > 1) return undefined;
    const found = await ask("token", { t: at.t }, "hover");
    if (!found) return undefined;
    const { text, ratio, cosine } = found.result;
    const bySite = meta.sites.map((/** @type {string} */ site, /** @type {number} */ s) => `${siteWords(site)} ${number(ratio[at.row][s])} × (cosine ${number(cosine[at.row][s])})`);
    return say(`Token ${count(at.t)}`, [text && `“${visible(text)}”`, where, `layer ${meta.layers[at.row]} adds: ${bySite.join(", ")}`]);
  }

  // Following the model: Python, another view of this widget, or ourselves.
  const chosen = () => { siteChoice.select.value = get("site"); fetchKernel(); fetchTaps(); fetchStrip(); };
  const coloured = () => { metricChoice.select.value = metricKey(); fetchStrip(); };
  const follow = /** @type {[string, () => void][]} */ ([
    ["site", chosen], ["layer", chosen], ["metric", coloured], ["tap", coloured],
    ["stat", () => { statChoice.select.value = get("stat"); fetchStrip(); }],
    ["selection", () => { strip.setSelection(selection()); fetchTaps(); restRead(); }],
    ["window", () => {
      const [[start, stop], now] = [get("window"), strip.view()];
      if (start !== now[0] || stop !== now[1]) strip.setView(start, stop, true);
      fetchStrip();
    }],
  ]);

  function resize() {
    const width = Math.max(280, Math.floor(chart.clientWidth || el.clientWidth));
    for (const item of [kernels, kernel, strip]) item.resize(width);
  }
  const [from, to] = get("window");
  strip.setView(from, to, true);
  strip.setSelection(selection());
  const end = life.begin(root, follow, { resize, redraw: () => { for (const item of [kernels, kernel, strip]) item.draw(); } });
  fetchKernel();
  fetchStrip();
  fetchTaps();
  if (!meta.causes) polling.start();
  return end;
}
