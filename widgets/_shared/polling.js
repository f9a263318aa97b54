// Asking again and again while something runs on the other side: every host carries answers, not every host carries news.

/**
 * @param {() => Promise<boolean>} look asks once; false when nothing runs any more
 * @param {AbortSignal} signal @param {number} [every_ms]
 */
export function createPolling(look, signal, every_ms = 400) {
  let running = false;
  return {
    /** Begin, unless it runs already. */
    async start() {
      if (running) return;
      running = true;
      while (!signal.aborted && await look()) await new Promise((done) => { setTimeout(done, every_ms); });
      running = false;
    },
  };
}
