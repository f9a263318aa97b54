// Questions to the Python side and their answers, over a host's custom messages.
//
// Request {id, verb, args}; answer {id, ok, result} with binary buffers, or {id, ok: false, error: {code, message}}. Questions are
// put in lanes: a lane has at most one question under way and one waiting, the newest; a question it replaces is told so. That
// bounds what a dragged pointer can pile up in a busy kernel, and nothing older can overwrite something newer. A notebook's server
// drops messages when too many come at once: a question that stays without an answer is sent again under its own id, and Python
// remembers what it did for an id, so that nothing is lost and nothing is done twice.

import { asUint8 } from "./bytes.js";

/** A newer question took this one's place: not an error to show. */
export class Superseded extends Error {}

/** The other side answered with an error, or not at all. */
export class RequestError extends Error {
  /** @param {string} message @param {string} code */
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export const TIMEOUT_MS = 30_000;
export const REPEAT_MS = 6_000;
const SILENCE = "no answer from Python: is the kernel busy, or gone? Run the cell again.";

/**
 * @param {any} model host model: send, on, off
 * @param {{timeout_ms?: number, repeat_ms?: number, heard?: (problem: RequestError | null) => void}} [options] `repeat_ms`: 0 never
 *   sends again (hosts whose messages are requests of their own); `heard` is told of every answer and every failure
 */
export function createRpc(model, options = {}) {
  const timeout_ms = options.timeout_ms ?? TIMEOUT_MS;
  const repeat_ms = options.repeat_ms ?? (model.widget_manager ? REPEAT_MS : 0);
  const heard = options.heard ?? (() => {});
  const prefix = Math.random().toString(36).slice(2, 8);
  let count = 0;
  /** @type {Map<string, any>} questions under way, by id */
  const open = new Map();
  /** @type {Map<string, {busy: boolean, next: any}>} */
  const lanes = new Map();

  const listen = (/** @type {any} */ content, /** @type {any[]} */ buffers) => {
    const question = content && open.get(content.id);
    if (!question) {
      if (String(content?.id).startsWith(`${prefix}-`)) heard(null); // too late for its question, but somebody is there
      return;
    }
    if (content.ok) {
      finish(question);
      heard(null);
      question.resolve({ result: content.result, buffers: (buffers || []).map(asUint8) });
      advance(question.lane);
    } else fail(question, content.error?.message ?? "the request failed", content.error?.code ?? "unknown");
  };
  model.on("msg:custom", listen);

  function finish(/** @type {any} */ question) {
    clearTimeout(question.timer);
    clearInterval(question.repeat);
    open.delete(question.id);
  }

  function fail(/** @type {any} */ question, /** @type {string} */ message, /** @type {string} */ code) {
    finish(question);
    const problem = new RequestError(message, code);
    heard(problem);
    question.reject(problem);
    advance(question.lane);
  }

  function advance(/** @type {string} */ name) {
    const lane = lanes.get(name);
    if (!lane) return;
    const next = lane.next;
    lane.next = null;
    lane.busy = Boolean(next);
    if (next) put(next);
  }

  function put(/** @type {any} */ question) {
    open.set(question.id, question);
    const send = () => {
      try {
        model.send({ id: question.id, verb: question.verb, args: question.args });
      } catch { // the host has no way to Python any more
        fail(question, SILENCE, "gone");
      }
    };
    question.timer = setTimeout(() => fail(question, SILENCE, "timeout"), timeout_ms);
    if (repeat_ms) question.repeat = setInterval(send, repeat_ms);
    send();
  }

  return {
    /**
     * Ask; the promise gives {result, buffers: Uint8Array[]}, or is rejected with Superseded or RequestError.
     * @param {string} verb @param {Record<string, any>} args @param {string} [name] lane, the verb unless given
     * @returns {Promise<{result: any, buffers: Uint8Array[]}>}
     */
    ask(verb, args, name = verb) {
      return new Promise((resolve, reject) => {
        count += 1;
        const question = { id: `${prefix}-${count}`, verb, args, lane: name, resolve, reject, timer: undefined, repeat: undefined };
        const lane = lanes.get(name) ?? { busy: false, next: null };
        lanes.set(name, lane);
        if (!lane.busy) {
          lane.busy = true;
          put(question);
          return;
        }
        lane.next?.reject(new Superseded());
        lane.next = question;
      });
    },
    /** Stop listening and drop what is under way. */
    dispose() {
      model.off("msg:custom", listen);
      for (const question of [...open.values()]) finish(question);
      open.clear();
      lanes.clear();
    },
  };
}
