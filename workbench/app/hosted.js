/**
 * Runs a widget's ES module inside Gradio's HTML component: the module is the one that notebooks run, byte for byte.
 *
 * A module sees a model with `get`, `set`, `save_changes`, `on`, `off`, `send`, as in Jupyter. The component's value is
 * `{subject, traits}`: an opaque key for what is shown, and JSON values by name. Bytes do not travel as JSON: a trait that is
 * `{blob: url}` is fetched once and the module gets a DataView, as in Jupyter. What the module changes goes to Python as the
 * component's `input` event with the whole value; Gradio's `change` would come for every value that Python sends, too.
 * `send({id, verb, args})` asks Python, and the answer `{id, ok, result | error}` comes as `msg:custom` with its buffers as
 * DataViews. After an answer to one of `follows` the component's `submit` event comes: what the verb began goes on in Python, and
 * new values follow.
 *
 * Not carried: `send` with buffers, and messages that Python starts by itself. It knows no particular widget.
 *
 * @typedef {{element: HTMLElement, props: any, trigger: (event: string, data?: any) => void, server: any,
 *   watch: (name: string, callback: () => void) => void, module: string, follows: string[]}} Host what Gradio hands to
 *   `js_on_load`, and what the component wrote into it
 */

/** Bytes of blobs kept for the values still in use; older ones are fetched again. */
const KEPT_BLOBS = 32;

const isBlob = (value) => value !== null && typeof value === "object" && typeof value.blob === "string";

/** Fetches blobs once and keeps the latest {@link KEPT_BLOBS}. */
class Blobs {
  #held = new Map();

  async load(url) {
    if (!this.#held.has(url)) {
      const answer = await fetch(url);
      if (!answer.ok) throw new Error(`The picture's data is gone (${answer.status}). Make the capture again.`);
      this.#held.set(url, new DataView(await answer.arrayBuffer()));
      while (this.#held.size > KEPT_BLOBS) this.#held.delete(this.#held.keys().next().value);
    }
    return this.#held.get(url);
  }
}

/** The model a widget module sees. `traits` hold loaded values; `dirty` names what the module changed and has not saved. */
class Model {
  #listeners = new Map();
  #traits;
  #dirty = new Set();
  #save;
  #ask;

  constructor(traits, { save, ask }) {
    this.#traits = traits;
    this.#save = save;
    this.#ask = ask;
  }

  get(name) {
    return this.#traits[name];
  }

  set(name, value) {
    this.#traits[name] = value;
    this.#dirty.add(name);
    this.#emit(`change:${name}`);
    this.#emit("change");
  }

  save_changes() {
    const changed = Object.fromEntries([...this.#dirty].map((name) => [name, this.#traits[name]]));
    this.#dirty.clear();
    if (Object.keys(changed).length) this.#save(changed);
  }

  on(event, callback) {
    for (const name of event.split(/\s+/)) {
      if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
      this.#listeners.get(name).add(callback);
    }
  }

  off(event, callback) {
    for (const name of event ? event.split(/\s+/) : [...this.#listeners.keys()]) {
      if (callback) this.#listeners.get(name)?.delete(callback);
      else this.#listeners.delete(name);
    }
  }

  async send(content) {
    try {
      const { content: reply, buffers } = await this.#ask(content);
      this.#emit("msg:custom", reply, buffers);
    } catch {
      const error = { code: "unreachable", message: "The app does not answer: reload the page." };
      this.#emit("msg:custom", { id: content?.id, ok: false, error }, []);
    }
  }

  /** New values from Python; what the module changed meanwhile and has not saved stays the module's. */
  receive(traits) {
    const changed = Object.keys(traits).filter((name) => !this.#dirty.has(name) && !same(traits[name], this.#traits[name]));
    for (const name of changed) this.#traits[name] = traits[name];
    for (const name of changed) this.#emit(`change:${name}`);
    if (changed.length) this.#emit("change");
  }

  #emit(event, ...values) {
    for (const callback of [...(this.#listeners.get(event) ?? [])]) callback(...values);
  }
}

/** Equal as traits: the same bytes object, or the same JSON. */
const same = (a, b) => a === b || (!(a instanceof DataView) && !(b instanceof DataView) && JSON.stringify(a) === JSON.stringify(b));

/**
 * Mount the module at the address `module` into the component, once there is a value to show.
 * @param {Host} host
 */
export async function mount({ element, props, trigger, server, watch, module: address, follows }) {
  const blobs = new Blobs();
  /** @type {Model | null} */
  let model = null;
  let shown = null;
  let turn = 0;
  let end = () => {};

  const load = async (traits) => {
    const loading = Object.entries(traits).map(async ([name, item]) => [name, isBlob(item) ? await blobs.load(item.blob) : item]);
    return Object.fromEntries(await Promise.all(loading));
  };
  const save = (changed) => {
    props.value = { ...props.value, traits: { ...props.value.traits, ...changed } };
    trigger("input");
  };
  const ask = async (content) => {
    const reply = await server.ask({ subject: props.value.subject, content });
    if (reply.content?.ok && follows.includes(content.verb)) trigger("submit");
    return { content: reply.content, buffers: await Promise.all(reply.buffers.map((url) => blobs.load(url))) };
  };

  const update = async () => {
    const mine = ++turn;
    const root = element.querySelector(".hosted");
    if (!root) return;
    try {
      if (!props.value?.traits) {
        end();
        return;
      }
      const { subject } = props.value;
      const traits = await load(props.value.traits);
      if (mine !== turn) return; // a newer value came while the bytes were on their way
      if (model && subject === shown) {
        model.receive(traits);
        return;
      }
      end();
      shown = subject;
      model = new Model(traits, { save, ask });
      const ending = new AbortController();
      const leaving = new MutationObserver(() => root.isConnected || end());
      leaving.observe(document.body, { childList: true, subtree: true });
      let cleanup = null;
      end = () => {
        end = () => {};
        leaving.disconnect();
        ending.abort();
        cleanup?.();
        root.replaceChildren();
        model = null;
      };
      const module = (await import(address)).default;
      const widget = typeof module === "function" ? await module() : module;
      await widget.initialize?.({ model, signal: ending.signal });
      cleanup = await widget.render?.({ model, el: root, signal: ending.signal });
    } catch (problem) {
      end();
      root.replaceChildren(Object.assign(document.createElement("p"), { className: "hosted-problem", textContent: String(problem.message ?? problem) }));
      root.firstChild.setAttribute("role", "alert");
    }
  };

  watch("value", update);
  await update();
}
