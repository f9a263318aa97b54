// A question whose failure is shown where the reader looks, and goes when a later one succeeds.

import { goneBy } from "./connection.js";
import { Superseded } from "./rpc.js";

/**
 * @param {{ask: Function}} rpc @param {any} problem element with role alert @param {AbortSignal} signal
 * @returns {(verb: string, args?: any, lane?: string) => Promise<{result: any, buffers: Uint8Array[]} | null>} null when it failed or
 *   a newer question took its place
 */
export function createAsker(rpc, problem, signal) {
  let shown = false;
  return async (verb, args = {}, lane = verb) => {
    try {
      const answer = await rpc.ask(verb, args, lane);
      if (signal.aborted) return null;
      if (shown) problem.hidden = true;
      shown = false;
      return answer;
    } catch (error) {
      const { code, message } = /** @type {any} */ (error);
      if (error instanceof Superseded || signal.aborted || goneBy(code)) return null; // nobody there: the view's own notice says so
      shown = true;
      problem.hidden = false;
      problem.textContent = message;
      return null;
    }
  };
}
