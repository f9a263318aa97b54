// The engine's status: state and numbers above, requests with their progress, log and details folded away, stop behind a question.
//
// Traits, all from Python: info, status, problem, history (float32 (n,4)). Questions: log, stop.

import { asFloat32 } from "../_shared/bytes.js";
import { button, element } from "../_shared/dom.js";
import { count, ended, percent } from "../_shared/format.js";
import { createLife } from "../_shared/life.js";
import { createSpark } from "./spark.js";

const HISTORY_S = 120;
const [READ, WRITTEN] = ["#0072B2", "#D55E00"]; // Okabe-Ito blue and vermilion, named beside

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render(host) {
  const { model } = host;
  const life = createLife(host, { lost: "nothing: an engine outlives its notebooks", timeout_ms: 90_000 });
  const { signal, problem, ask: question } = life;

  const title = element("p", { class: "ink-title" });
  const facts = element("p", { class: "ink-facts" });
  const pill = element("span", { class: "ink-pill", role: "status" });
  const notice = element("p", { class: "ink-notice", hidden: true });
  const sparks = { kv: createSpark(READ), read: createSpark(READ), written: createSpark(WRITTEN) };
  const tile = (/** @type {string} */ label, /** @type {any} */ spark) => {
    const [value, note] = [element("b"), element("span", { class: "ink-tile-note" })];
    const box = element("div", { class: "ink-tile" }, [element("span", { class: "ink-tile-label", text: label }), value, note, ...(spark ? [spark.el] : [])]);
    return { box, set: (/** @type {string} */ text, /** @type {string} */ more) => { value.textContent = text; note.textContent = more; } };
  };
  const tiles = {
    requests: tile("Requests", null), read: tile("Reading", sparks.read), written: tile("Writing", sparks.written),
    kv: tile("KV cache in use", sparks.kv), prefix: tile("Prefix cache", null), drafts: tile("Drafts", null),
  };
  const requests = element("tbody");
  const table = element("table", {}, [
    element("caption", { text: "Requests under way" }),
    element("thead", {}, [element("tr", {}, ["Request", "State", "Prompt", "Answer", "Time"].map((text) => element("th", { scope: "col", text })))]),
    requests,
  ]);
  const idle = element("p", { class: "ink-facts", text: "No request is under way." });
  const log = element("pre", { class: "ink-log", tabindex: "0", "aria-label": "The engine's log, its last lines" });
  const logBox = element("details", { class: "ink-more" }, [element("summary", { text: "Log" }), log]);
  logBox.addEventListener("toggle", () => logBox.open && readLog(), { signal });
  const details = element("dl", { class: "ink-details" });
  const detailBox = element("details", { class: "ink-more" }, [element("summary", { text: "What it is and can do" }), details]);
  const stop = button("Stop engine", "Stop the engine, for everyone who uses it", () => ask(true), signal);
  const sure = button("Stop it for everyone", "Confirm: stop the engine", () => stopIt(), signal);
  const keep = button("Keep it", "Leave the engine running", () => ask(false), signal);
  const confirm = element("span", { class: "ink-buttons", hidden: true }, [sure, keep]);
  const root = element("section", { class: "ink-widget ink-engine", "aria-label": "Engine" }, [
    element("header", { class: "ink-head" }, [
      element("div", {}, [element("div", { class: "ink-line" }, [title, pill]), facts]), element("div", { class: "ink-buttons" }, [stop, confirm]),
    ]),
    notice, problem, element("div", { class: "ink-tiles" }, Object.values(tiles).map((item) => item.box)), table, idle, logBox, detailBox,
  ]);

  function ask(/** @type {boolean} */ on) {
    [stop.hidden, confirm.hidden] = [on, !on];
    (on ? keep : stop).focus();
  }
  async function stopIt() {
    sure.disabled = keep.disabled = true;
    sure.textContent = "Stopping…";
    await question("stop");
    sure.disabled = keep.disabled = false;
    sure.textContent = "Stop it for everyone";
    ask(false);
  }
  async function readLog() {
    const found = await question("log");
    if (!found) return;
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    log.textContent = found.result.text;
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  function show() {
    const [info, status, gone] = [model.get("info"), model.get("status"), model.get("problem")];
    const lost = Boolean(gone?.message);
    title.textContent = info.model;
    facts.textContent = [info.recipe && `recipe ${info.recipe}`, `${count(info.context_tokens)} tokens of context`, info.url,
      info.started_by && `started ${String(info.started_at).slice(0, 16).replace("T", " ")} by ${info.started_by}`].filter(Boolean).join(" · ");
    pill.textContent = lost ? "not answering" : status.stopping ? "stopping" : status.alive === false ? "failed" : status.running > 0 ? "busy" : "idle";
    pill.dataset.state = pill.textContent;
    notice.hidden = !info.random_weights;
    notice.textContent = "The checkpoint has random weights: its answers are noise, and say so.";
    if (lost) life.connection.heard({ ...gone, message: `${ended(gone.message)} The numbers below are the last ones it gave.` });
    else life.connection.back();
    stop.disabled = lost || info.kind !== "workbench";
    root.classList.toggle("is-lost", lost);
    numbers(status);
    rows(status.requests ?? []);
    about(info);
    lines();
  }
  function numbers(/** @type {any} */ status) {
    tiles.requests.set(count(status.running ?? 0), `running, ${count(status.waiting ?? 0)} waiting`);
    tiles.read.set(count(Math.round(status.read_tokens_per_s ?? 0)), "prompt tokens/s");
    tiles.written.set((status.written_tokens_per_s ?? 0).toFixed(1), "answer tokens/s");
    tiles.kv.set(percent(status.kv_cache_used ?? 0), "of its blocks");
    tiles.prefix.box.hidden = status.prefix_hit_share == null;
    tiles.prefix.set(percent(status.prefix_hit_share), "of prompt tokens were cached");
    tiles.drafts.box.hidden = status.accepted_share == null;
    tiles.drafts.set(percent(status.accepted_share), "of drafted tokens accepted");
  }
  function rows(/** @type {any[]} */ list) {
    table.hidden = list.length === 0;
    idle.hidden = list.length > 0;
    requests.replaceChildren(...list.map((item) => {
      const share = item.total_tokens ? item.done_tokens / item.total_tokens : 0;
      const state = item.waiting ? "waiting" : share < 1 ? "reading" : "writing";
      const bar = element("span", {
        class: "ink-meter", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": Math.round(share * 100),
        "aria-label": "Prompt read",
      }, [element("i", { style: `width:${Math.min(100, share * 100)}%` })]);
      return element("tr", {}, [
        element("th", { scope: "row", title: item.request_id, text: `${item.kind} ${item.request_id.slice(-6)}` }), element("td", { text: state }),
        element("td", {}, [bar, ` ${count(item.done_tokens)} of ${count(item.total_tokens)}`]),
        element("td", { text: count(item.generated_tokens) }), element("td", { text: `${item.running_s.toFixed(1)} s` }),
      ]);
    }));
  }
  function about(/** @type {any} */ info) {
    const pairs = [
      ["Revision", info.revision], ["Seams that can fire", info.firing.join(", ")],
      ...info.silent.map((/** @type {any} */ seam) => [`Not ${seam.name}`, seam.reason]),
      ...Object.entries(info.engine_args), ...Object.entries(info.versions), ["Log file", info.log],
    ];
    details.replaceChildren(...pairs.filter(([, value]) => value != null && value !== "").flatMap(([name, value]) =>
      [element("dt", { text: name }), element("dd", { text: String(value) })]));
  }
  function lines() {
    const flat = asFloat32(model.get("history"));
    const column = (/** @type {number} */ c) => Array.from({ length: flat.length / 4 }, (_, i) => flat[i * 4 + c]);
    const xs = column(0);
    sparks.kv.draw(xs, column(1), HISTORY_S, 1);
    for (const [spark, c] of /** @type {[any, number][]} */ ([[sparks.read, 2], [sparks.written, 3]])) {
      const ys = column(c);
      spark.draw(xs, ys, HISTORY_S, Math.max(1, ...ys));
    }
  }

  let waiting = false;
  const changed = () => { // four traits change at once
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (signal.aborted) return;
      show();
      if (logBox.open) readLog();
    });
  };
  const end = life.begin(root, ["info", "status", "problem", "history"].map((name) => [name, changed]), { resize: lines, redraw: lines });
  show();
  return end;
}
