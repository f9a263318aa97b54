// The chat: what was said on this branch, the answer while it comes, and the place to write.
//
// Traits. From Python: meta, turns (this branch, whole), live (the answer under way, at most 30 a second), problem. Both ways:
// settings {effort, temperature, max_tokens, logprobs}, chosen and token (a reply, and a
// token of it, to look inside). Questions: price, send, stop, retry, edit, branch, tokens.
// Nothing is lost when an update is dropped: `turns` carries every finished turn.
// Keyboard: Enter sends, Shift+Enter starts a line, Escape stops the answer or leaves an edit.

import { frame } from "../_shared/canvas.js";
import { goneBy } from "../_shared/connection.js";
import { button, choice, element } from "../_shared/dom.js";
import { count } from "../_shared/format.js";
import { createLife } from "../_shared/life.js";
import { createLive } from "./live.js";
import { createTurn } from "./turn.js";

/** @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host */
export function render(host) {
  const { model } = host;
  const life = createLife(host, { lost: "the conversation, unless it was saved, and an answer under way", timeout_ms: 120_000 });
  const { signal, rpc, ask, problem, tell } = life;
  const meta = () => model.get("meta");
  const settings = () => model.get("settings");
  /** @type {Map<string, {key: string, el: HTMLElement}>} turns as drawn, by id: only what changed is made again */
  const drawn = new Map();

  const title = element("p", { class: "ink-title", text: "Chat" });
  const facts = element("p", { class: "ink-facts" });
  const fill = element("i");
  const gauge = element("div", { class: "ink-window", role: "img" }, [fill]);
  const log = element("div", { class: "ink-turns", role: "log", "aria-label": "Conversation", tabindex: "0" });
  const empty = element("p", { class: "ink-facts ink-empty", text: "Ask about what is in the context. The answer streams here." });
  const parts = element("p", { class: "ink-parts", "aria-label": "What stands before the conversation" });
  const live = createLive();
  const input = element("textarea", { class: "ink-input", rows: "2", "aria-label": "Your message", placeholder: "Ask…" });
  const send = button("Send", "Send the message", () => submit(), signal);
  const stop = button("Stop", "Stop the answer", () => ask("stop", {}), signal);
  send.classList.add("is-primary");
  const effort = choice("Effort", meta().efforts.map((/** @type {string} */ name) => [name, name]), settings().effort ?? "",
    (value) => change({ effort: value }), signal);
  const temperature = number("Temperature", settings().temperature, { min: 0, max: 2, step: 0.1 }, (value) => change({ temperature: value }));
  const limit = number("Answer up to", settings().max_tokens, { min: 1, max: meta().context_tokens, step: 1 }, (value) => change({ max_tokens: value }));
  const cost = element("span", { class: "ink-facts ink-cost", "aria-live": "polite" });
  const root = element("section", { class: "ink-widget ink-chat", "aria-label": "Chat" }, [
    element("header", { class: "ink-head" }, [element("div", {}, [title, facts]), gauge]),
    ...meta().notices.map((/** @type {string} */ text) => element("p", { class: "ink-notice", text })),
    parts, log, empty, problem,
    element("div", { class: "ink-compose" }, [input, element("div", { class: "ink-send" }, [send, stop])]),
    element("div", { class: "ink-row" }, [effort.el, temperature, limit, cost]),
  ]);

  function number(/** @type {string} */ label, /** @type {number} */ value, /** @type {Record<string, number>} */ range, /** @type {(v: number) => void} */ changed) {
    const field = element("input", { type: "number", value, ...range });
    field.addEventListener("change", () => {
      if (field.checkValidity() && field.value !== "") return changed(Number(field.value));
      return field.reportValidity();
    }, { signal });
    return element("label", { class: "ink-choice" }, [element("span", { text: label }), field]);
  }
  function change(/** @type {Record<string, any>} */ values) {
    tell("settings", { ...settings(), ...values });
    priceSoon();
  }
  let resting = 0;
  async function submit() {
    const text = input.value.trim();
    if (!text || busy()) return;
    clearTimeout(resting);
    if (await ask("send", { text })) {
      // What was typed since is the beginning of the next message.
      input.value = input.value.trim().startsWith(text) ? input.value.trim().slice(text.length).trimStart() : input.value;
      cost.textContent = "";
    }
    input.focus();
  }
  const busy = () => Boolean(model.get("live")?.phase);

  // What a message would cost, before it is sent: asked when typing rests.
  function priceSoon() {
    clearTimeout(resting);
    resting = setTimeout(async () => {
      const text = input.value.trim();
      if (!text) {
        cost.textContent = "";
        return;
      }
      try {
        const { result } = await rpc.ask("price", { text });
        if (input.value.trim() !== text) return; // sent, or written on, meanwhile
        cost.textContent = result.words;
        cost.classList.toggle("ink-problem", !result.fits);
      } catch {
        cost.textContent = ""; // a price is a courtesy; sending says what is wrong
      }
    }, 300);
  }

  const actions = {
    retry: (/** @type {string} */ id) => ask("retry", { turn: id }), // of a message without an answer: the answer
    edit: (/** @type {string} */ id, /** @type {string} */ text) => ask("edit", { turn: id, text }),
    branch: (/** @type {string} */ id, /** @type {number} */ to) => ask("branch", { turn: id, to }),
    tokens: async (/** @type {string} */ id) => (await ask("tokens", { turn: id }))?.result.tokens,
    inspect: (/** @type {string} */ id) => { tell("token", -1); tell("chosen", id); },
    token: (/** @type {string} */ id, /** @type {number} */ index) => { tell("token", index); tell("chosen", id); },
  };
  /** @type {any[]} */
  let last = [];
  function showTurns() {
    const turns = model.get("turns");
    const now = [turns, model.get("chosen"), busy()];
    if (now.every((value, i) => value === last[i])) return;
    last = now;
    for (const id of [...drawn.keys()]) if (!turns.some((/** @type {any} */ turn) => turn.id === id)) drawn.delete(id);
    const nodes = [...turns.map((/** @type {any} */ turn) => {
      const [key, chosen] = [JSON.stringify([turn, busy()]), turn.id === model.get("chosen")];
      if (drawn.get(turn.id)?.key !== key) drawn.set(turn.id, { key, el: createTurn(turn, { ...actions, busy: busy(), chosen }, signal) });
      const shown = /** @type {HTMLElement} */ (drawn.get(turn.id)?.el);
      shown.classList.toggle("is-chosen", chosen); // in place: what is open in it stays open
      shown.querySelector(".ink-inspect")?.setAttribute("aria-pressed", String(chosen));
      return shown;
    }), live.el];
    if (nodes.length !== log.children.length || nodes.some((/** @type {any} */ node, /** @type {number} */ i) => log.children[i] !== node)) log.replaceChildren(...nodes);
    empty.hidden = turns.length > 0 || busy();
  }
  /** Let the end stay in sight for those who read there, and nothing move for those who read further up. */
  function keepingPlace(/** @type {() => void} */ draw) {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 24;
    draw();
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
  function showMeta() {
    const { model: name, context_tokens: most, used_tokens: used } = meta();
    facts.textContent = `${name} · ${count(used)} of ${count(most)} tokens used`;
    parts.replaceChildren(...meta().parts.map((/** @type {any} */ part) => element("span", { class: "ink-part", text: `${part.label} · ${count(part.tokens)}` })));
    parts.hidden = meta().parts.length === 0;
    fill.style.width = `${Math.min(100, (used / most) * 100)}%`;
    gauge.setAttribute("aria-label", `${count(used)} of ${count(most)} tokens used`);
  }
  const showLive = frame(() => {
    if (signal.aborted) return;
    keepingPlace(() => {
      live.show(model.get("live") ?? {});
      [send.hidden, stop.hidden] = [busy(), !busy()];
      showTurns();
    });
  });
  function showProblem() {
    const said = model.get("problem");
    problem.hidden = !said?.message || Boolean(goneBy(said.code)); // nobody there: the notice says so, and offers to reconnect
    problem.textContent = said?.message ?? "";
    if (said?.message) life.connection.heard(said);
    else life.connection.back();
  }

  input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation(); // notebooks bind plain keys
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
    if (event.key === "Escape" && busy()) ask("stop", {});
  }, { signal });
  input.addEventListener("input", priceSoon, { signal });

  const follow = /** @type {[string, () => void][]} */ ([
    ["turns", showLive], ["live", showLive], ["meta", showMeta], ["problem", showProblem], ["chosen", showLive],
    ["settings", () => { effort.select.value = settings().effort ?? ""; }],
  ]);
  const end = life.begin(root, follow, { ended: () => clearTimeout(resting) });
  showMeta();
  showTurns();
  showLive();
  showProblem();
  return end;
}
