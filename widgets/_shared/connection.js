// What a view says when nobody answers behind it any more, and the way back: one notice for the kernel and the engine.
//
// A kernel that restarted lost the Python side of every widget: the notice says what this one lost, and offers to run the cells that
// made it. An engine that went away is looked for again by Python. Knows no widget.

import { button, element } from "./dom.js";
import { ended, sentence } from "./format.js";
import { canRunAgain, runAgain } from "./run_again.js";

const ENGINE_GONE = new Set(["engine-unreachable", "engine-died", "engine-not-found", "engine-auth"]);
const KERNEL_GONE = new Set(["gone", "timeout"]);

/** Who is gone, by the code of a failure. @param {string | undefined} code @returns {"engine" | "kernel" | null} */
export function goneBy(code) {
  if (!code) return null;
  return ENGINE_GONE.has(code) ? "engine" : KERNEL_GONE.has(code) ? "kernel" : null;
}

/**
 * @param {{model: any, el: HTMLElement, signal: AbortSignal, ask: (verb: string) => Promise<any>, lost: string, again: () => void}} options
 *   `ask` gives up soon; `lost`: what goes with the kernel, in words; `again` is called when somebody answers again
 */
export function createConnection({ model, el, signal, ask, lost, again }) {
  const words = element("span");
  const act = button("Reconnect", "Reconnect", reconnect, signal);
  const notice = element("div", { class: "ink-lost", role: "alert", hidden: true }, [words, act]);
  const manager = model.widget_manager;
  /** @type {"engine" | "kernel" | null} */ let gone = null;

  function show(/** @type {typeof gone} */ who, /** @type {string} */ text) {
    gone = who;
    notice.hidden = !who;
    words.textContent = text;
    act.disabled = false;
    act.hidden = who === "kernel" ? !canRunAgain(manager, el) : !manager;
    act.textContent = who === "kernel" ? "Run the cells down to this one" : "Reconnect";
    act.setAttribute("aria-label", who === "kernel" ? "Run the cells down to this one, in the kernel that is there now" : "Look for the engine that runs now");
    act.title = act.getAttribute("aria-label") ?? "";
  }
  function lose(/** @type {"engine" | "kernel"} */ who, /** @type {string} */ message) {
    if (who === "engine") {
      return show(who, `${ended(sentence(message))} Lost with it: what it had cached and what was under way; the next question is read anew.`);
    }
    return show(who, `Python does not answer: its kernel was restarted, stopped, or is busy. What is drawn stays. Lost with a restart: ${lost}.` +
      (canRunAgain(manager, el) ? "" : " Run the cells down to this one again."));
  }
  async function reconnect() {
    act.disabled = true;
    try {
      if (gone === "kernel") await runAgain(manager, el, (text) => { words.textContent = text; });
      else {
        await ask("reconnect");
        show(null, "");
        again();
      }
    } catch (error) {
      if (!signal.aborted) words.textContent = /** @type {Error} */ (error).message;
    }
    act.disabled = false;
  }
  /** Whether somebody is there: after a restart, and when the host says that its way to Python changed. */
  const look = () => { ask("alive").catch(() => {}); };
  model.on("comm_live_update", look);
  return {
    el: notice,
    /** Told of every answer and failure. @param {{code?: string, message: string} | null} problem */
    heard(problem) {
      const who = goneBy(problem?.code);
      if (who) lose(who, problem?.message ?? "");
      else if (gone === "kernel") show(null, "");
    },
    /** The engine answers again, by itself. */
    back() {
      if (gone === "engine") show(null, "");
    },
    end: () => model.off("comm_live_update", look),
  };
}
