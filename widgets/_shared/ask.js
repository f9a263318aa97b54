// A question whose failure is shown where the reader looks, and goes when a later one succeeds.

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
      if (error instanceof Superseded || signal.aborted) return null;
      shown = true;
      problem.hidden = false;
      problem.textContent = /** @type {Error} */ (error).message;
      return null;
    }
  };
}

/**
 * The same for answers without bytes.
 * @param {{ask: Function}} rpc @param {any} problem element with role alert @param {AbortSignal} signal
 * @returns {(verb: string, args: any) => Promise<any>} the result, or null
 */
export function createAsk(rpc, problem, signal) {
  const ask = createAsker(rpc, problem, signal);
  return async (verb, args) => (await ask(verb, args))?.result ?? null;
}
