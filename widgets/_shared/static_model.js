// A model without Python: traits from a page's own data, answers from a function. For reports opened from a file.

/**
 * @param {Record<string, any>} state traits by name
 * @param {(verb: string, args: any) => {result: any, buffers: Uint8Array[]}} answer throws an Error that the view shows
 */
export function staticModel(state, answer) {
  /** @type {Map<string, Set<Function>>} */
  const listeners = new Map();
  const emit = (/** @type {string} */ name, /** @type {any[]} */ ...values) => {
    for (const listener of [...(listeners.get(name) ?? [])]) listener(...values);
  };
  return {
    get: (/** @type {string} */ name) => state[name],
    set(/** @type {string} */ name, /** @type {any} */ value) {
      state[name] = value;
      emit(`change:${name}`, value);
    },
    save_changes() {},
    on(/** @type {string} */ name, /** @type {Function} */ listener) {
      if (!listeners.has(name)) listeners.set(name, new Set());
      listeners.get(name)?.add(listener);
    },
    off(/** @type {string} */ name, /** @type {Function} */ listener) {
      listeners.get(name)?.delete(listener);
    },
    send(/** @type {{id: string, verb: string, args: any}} */ { id, verb, args }) {
      queueMicrotask(() => {
        try {
          const { result, buffers } = answer(verb, args);
          emit("msg:custom", { id, ok: true, result }, buffers);
        } catch (error) {
          emit("msg:custom", { id, ok: false, error: { code: "static", message: /** @type {Error} */ (error).message } }, []);
        }
      });
    },
  };
}
