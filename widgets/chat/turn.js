// One turn: a message with its edit, or a reply with reasoning, tool calls, probabilities, what it cost and what can be done with it.

import { button, element } from "../_shared/dom.js";
import { count, percent, visible } from "../_shared/format.js";

const MOST_TOKENS = 2_000; // one element a token: beyond this the text stays plain

/**
 * @param {any} turn
 * @param {{retry: Function, edit: Function, branch: Function, inspect: Function, token: Function, busy: boolean, chosen: boolean}} actions
 * @param {AbortSignal} signal
 * @returns {HTMLElement}
 */
export function createTurn(turn, actions, signal) {
  /** @type {Record<string, () => [string, any]>} */
  const kinds = {
    user: () => ["You", message(turn, actions, signal)],
    tool: () => ["Tool", [element("pre", { class: "ink-call", text: turn.text }), ...unanswered(turn, actions, signal)]],
    stopped: () => [turn.broken ? "Inkling, broken off" : "Inkling, stopped", stopped(turn)],
  };
  const [who, body] = kinds[turn.role]?.() ?? ["Inkling", reply(turn, actions, signal)];
  return element("article", { class: `ink-turn is-${turn.role}${actions.chosen ? " is-chosen" : ""}`, "aria-label": who }, body);
}

function stopped(/** @type {any} */ turn) {
  return [...(turn.reasoning ? [element("p", { class: "ink-reasoning", text: turn.reasoning })] : []), element("p", { class: "ink-said", text: turn.text }),
    element("p", { class: "ink-notice", text: `${turn.broken ? "The engine ended here." : "Stopped."} What had come is shown, and is not part of the conversation.` })];
}

/** A message that waits for its answer: it was stopped, or the engine went. */
function unanswered(/** @type {any} */ turn, /** @type {any} */ actions, /** @type {AbortSignal} */ signal) {
  if (!turn.unanswered || actions.busy) return [];
  return [button("Try again", "Ask for the answer to this message again", () => actions.retry(turn.id), signal)];
}

function branches(/** @type {any} */ turn, /** @type {any} */ actions, /** @type {AbortSignal} */ signal) {
  if (turn.branches < 2) return [];
  const step = (/** @type {number} */ by) => {
    const made = button(by < 0 ? "‹" : "›", by < 0 ? "The branch before" : "The next branch", () => actions.branch(turn.id, turn.branch + by), signal);
    made.disabled = actions.busy || turn.branch + by < 0 || turn.branch + by >= turn.branches;
    return made;
  };
  return [element("span", { class: "ink-branches" }, [step(-1), element("span", { text: `${turn.branch + 1} of ${turn.branches}` }), step(1)])];
}

function message(/** @type {any} */ turn, /** @type {any} */ actions, /** @type {AbortSignal} */ signal) {
  const text = element("p", { class: "ink-said", text: turn.text });
  const field = element("textarea", { class: "ink-input", rows: "2", "aria-label": "Edit the message", hidden: true });
  const edit = button("Edit", "Edit this message and ask again, as another branch", () => toggle(true), signal);
  const again = button("Ask again", "Ask with the edited message", () => {
    if (field.value.trim()) actions.edit(turn.id, field.value.trim());
  }, signal);
  const leave = button("Leave", "Leave the edit", () => toggle(false), signal);
  again.hidden = leave.hidden = true;
  edit.disabled = actions.busy;
  function toggle(/** @type {boolean} */ on) {
    [text.hidden, edit.hidden, field.hidden, again.hidden, leave.hidden] = [on, on, !on, !on, !on];
    if (on) {
      field.value = turn.text;
      field.focus();
    } else edit.focus();
  }
  field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation();
    if (event.key === "Escape") toggle(false);
  }, { signal });
  const files = (turn.files ?? []).join(", ");
  return [...(files ? [element("p", { class: "ink-facts ink-files", text: files })] : []), text, field,
    element("p", { class: "ink-actions" }, [edit, again, leave, ...unanswered(turn, actions, signal), ...branches(turn, actions, signal)])];
}

function reply(/** @type {any} */ turn, /** @type {any} */ actions, /** @type {AbortSignal} */ signal) {
  const said = element("p", { class: "ink-said", text: turn.text || (turn.tools.length ? "" : "(no text)") });
  const readout = element("p", { class: "ink-facts ink-alternatives", "aria-live": "polite", hidden: true });
  const found = [];
  if (turn.reasoning) {
    found.push(element("details", { class: "ink-reasoning" }, [element("summary", { text: "Reasoning" }), element("p", { text: turn.reasoning })]));
  }
  found.push(said);
  for (const call of turn.tools) {
    found.push(element("pre", { class: "ink-call" }, [element("b", { text: `${call.name} ` }), call.problem ? `${call.raw}\n${call.problem}` : JSON.stringify(call.arguments)]));
  }
  for (const text of turn.notices) found.push(element("p", { class: "ink-notice", text }));
  if (turn.finish_reason === "length") found.push(element("p", { class: "ink-notice", text: "Cut at the answer's limit: raise “Answer up to” and retry." }));
  const usage = turn.usage;
  const cost = `${count(usage.prompt_tokens)} tokens read, ${count(usage.cached_tokens)} of them cached · ${count(usage.completion_tokens)} written · ` +
    `first after ${turn.timings.first_token_s.toFixed(1)} s, all in ${turn.timings.total_s.toFixed(1)} s`;
  const retry = button("Retry", "Ask again from here, as another branch", () => actions.retry(turn.id), signal);
  retry.disabled = actions.busy;
  const inspect = button("Look inside", "Choose this reply for the views of routing and attention", () => actions.inspect(turn.id), signal);
  inspect.setAttribute("aria-pressed", String(actions.chosen));
  inspect.classList.add("ink-inspect");
  const buttons = [retry, inspect];
  if (turn.tokens && turn.tokens <= MOST_TOKENS) {
    const shown = button("Probabilities", "Show each token's probability and its alternatives", async () => {
      const on = shown.getAttribute("aria-pressed") !== "true";
      const given = on ? await actions.tokens(turn.id) : null;
      if (on && !given) return; // what failed is said
      shown.setAttribute("aria-pressed", String(on));
      readout.hidden = !on;
      if (given) said.replaceChildren(...tokens(turn.id, given, readout, actions, signal));
      else said.textContent = turn.text;
    }, signal);
    shown.setAttribute("aria-pressed", "false");
    buttons.push(shown);
  }
  return [...found, readout, element("p", { class: "ink-facts ink-usage", text: cost }),
    element("p", { class: "ink-actions" }, [...buttons, ...branches(turn, actions, signal)])];
}

const FRAMING = /^<\|.*\|>$/s;
const isolated = (/** @type {string} */ text) => `\u2068${visible(text)}\u2069`; // right-to-left text keeps its number beside it

/** The answer token by token, underlined by surprise; the read-out names the alternatives, a press chooses one to look inside. */
function tokens(/** @type {string} */ turn, /** @type {any[]} */ given, /** @type {HTMLElement} */ readout, /** @type {any} */ actions, /** @type {AbortSignal} */ signal) {
  readout.textContent = "Point at a token, or move with Tab, to read its probability and what else could have come; Enter or a press chooses it to look inside.";
  return given.map((token, index) => {
    const chance = Math.exp(token.logprob);
    const made = element("span", {
      class: `ink-token${FRAMING.test(token.text) ? " is-framing" : ""}`, tabindex: "0", role: "button", "data-chance": chance > 0.9 ? "high" : chance > 0.5 ? "middle" : "low",
      "aria-label": visible(token.text), text: token.text,
    });
    const read = () => {
      const others = token.alternatives.map((/** @type {[string, number]} */ [text, logprob]) => `${isolated(text)} ${percent(Math.exp(logprob))}`);
      readout.textContent = `${isolated(token.text)} ${percent(chance)}${others.length ? ` · instead: ${others.join(", ")}` : ""}`;
    };
    const choose = () => {
      actions.token(turn, index);
      for (const other of made.parentElement?.children ?? []) other.classList.toggle("is-chosen", other === made);
      readout.textContent = `${isolated(token.text)}: token ${count(index + 1)} of the answer is chosen to look inside`;
    };
    made.addEventListener("pointerenter", read, { signal });
    made.addEventListener("focus", read, { signal });
    made.addEventListener("click", choose, { signal });
    made.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation(); // notebooks bind Enter
      choose();
    }, { signal });
    return made;
  });
}
