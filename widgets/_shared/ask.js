// A question whose failure is shown where the reader looks, and goes when a later one succeeds.

import { Superseded } from "./rpc.js";

/**
 * @param {{ask: Function}} rpc @param {any} problem element with role alert @param {AbortSignal} signal
 * @returns {(verb: string, args: any) => Promise<any>} the result, or null when it failed or a newer question took its place
 */
export function createAsk(rpc, problem, signal) {
  let shown = false;
  return async (verb, args) => {
    try {
      const { result } = await rpc.ask(verb, args);
      if (shown) problem.hidden = true;
      shown = false;
      return result;
    } catch (error) {
      if (error instanceof Superseded || signal.aborted) return null;
      shown = true;
      problem.hidden = false;
      problem.textContent = /** @type {Error} */ (error).message;
      return null;
    }
  };
}
