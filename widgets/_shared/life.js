// What every view does alike: its questions, its traits, its size and theme, what it says when nobody answers, and its end.

import { createAsker } from "./ask.js";
import { watchTheme } from "./canvas.js";
import { createConnection } from "./connection.js";
import { element } from "./dom.js";
import { createRpc } from "./rpc.js";
import { hideTwin } from "./twin.js";

const SOON_MS = 8_000; // to look whether somebody is there

/**
 * @param {{model: any, el: HTMLElement, signal?: AbortSignal}} host
 * @param {{lost: string, timeout_ms?: number, again?: () => void}} options `lost`: what goes with the kernel; `again` is called when an
 *   engine answers again
 */
export function createLife({ model, el, signal: hostSignal }, { lost, timeout_ms, again = () => {} }) {
  const ending = new AbortController();
  const { signal } = ending;
  const heard = (/** @type {any} */ problem) => connection.heard(problem);
  const rpc = createRpc(model, { timeout_ms, heard });
  const quick = createRpc(model, { timeout_ms: SOON_MS, heard });
  const connection = createConnection({ model, el, signal, ask: (verb) => quick.ask(verb, {}), lost, again });
  const problem = element("p", { class: "ink-problem", role: "alert", hidden: true });
  const get = (/** @type {string} */ name) => model.get(name);
  return {
    signal, rpc, problem, connection, get,
    /** A question whose failure is shown; see ask.js. */
    ask: createAsker(rpc, problem, signal),
    /** Set a trait for Python and other views, if it is another value. @param {string} name @param {any} value */
    tell(name, value) {
      if (JSON.stringify(get(name)) === JSON.stringify(value)) return;
      model.set(name, value);
      model.save_changes();
    },
    /** The shared token range, or null. @returns {number[] | null} */
    selection: () => (get("selection")?.length === 2 ? get("selection") : null),
    /**
     * Show the page and begin to follow.
     * @param {HTMLElement} root the view @param {[string, () => void][]} follow traits and what they change
     * @param {{resize?: () => void, redraw?: () => void, ended?: () => void}} [options]
     * @returns {() => void} the view's end
     */
    begin(root, follow, { resize = () => {}, redraw = () => {}, ended = () => {} } = {}) {
      root.insertBefore(connection.el, root.children[1] ?? null);
      el.replaceChildren(root);
      for (const [name, changed] of follow) model.on(`change:${name}`, changed);
      const sized = () => {
        resize();
        hideTwin(el, true); // here, because a first size means that the element is in its page
      };
      const observer = new ResizeObserver(sized);
      observer.observe(el);
      addEventListener("resize", sized, { signal }); // zooming changes the screen's pixels, and not always the view's size
      const stopWatching = watchTheme(redraw);
      sized();
      const end = () => {
        if (signal.aborted) return;
        ending.abort();
        ended();
        for (const [name, changed] of follow) model.off(`change:${name}`, changed);
        observer.disconnect();
        stopWatching();
        connection.end();
        for (const one of [rpc, quick]) one.dispose();
        hideTwin(el, false);
      };
      hostSignal?.addEventListener("abort", end);
      return end;
    },
  };
}
