// What comes in: files dropped or chosen, text pasted or written, the microphone. Every upload has its progress and its own error.

import { button, element } from "../_shared/dom.js";
import { percent } from "../_shared/format.js";
import { record } from "./recording.js";
import { doorAddress, inPieces, throughDoor } from "./uploads.js";

let uploads = 0;

/**
 * @param {{ask: (verb: string, args: any, lane: string) => Promise<{result: any}>, signal: AbortSignal, onState: (state: any) => void,
 *   onRefresh: () => Promise<void>, onCost: (edit: any | null, what: string) => void, onProblem: (words: string) => void}} options
 */
export function createAdding({ ask, signal, onState, onRefresh, onCost, onProblem }) {
  const picker = element("input", { type: "file", multiple: true, class: "ink-hidden-file", "aria-label": "Files to add", tabindex: "-1" });
  const list = element("ul", { class: "ink-uploads", "aria-live": "polite", "aria-label": "Uploads" });
  const box = element("textarea", { rows: "3", class: "ink-input", "aria-label": "Text to add", placeholder: "Paste or write text; it is sent exactly as it is" });
  const add = button("Add text", "Add the text as a part", addText, signal);
  add.disabled = true;
  const mic = button("Record", "Record from the microphone", toggle, signal);
  const zone = element("div", { class: "ink-drop" }, [
    element("span", { text: "Drop documents, images or recordings here" }),
    element("span", { class: "ink-buttons" }, [button("Choose files", "Choose files to add", () => picker.click(), signal), mic]), picker,
  ]);
  /** @type {any} */ let recording = null;
  let clock = 0;

  /** @type {Promise<void>} files are read one after the other, in the order in which they came */
  let turn = Promise.resolve();
  function take(/** @type {Iterable<File>} */ files) {
    for (const file of files) {
      const row = upload(file);
      turn = turn.then(() => row.send());
    }
  }
  function upload(/** @type {File} */ file) {
    const ending = new AbortController();
    const bar = element("i");
    const words = element("span", { text: "waiting" });
    const item = element("li", {}, [element("b", { text: file.name }), words, element("span", { class: "ink-progress" }, [bar])]);
    const stop = button("Stop", `Stop ${file.name}`, () => { ending.abort(); item.remove(); }, signal);
    item.append(stop);
    list.append(item);
    const told = (/** @type {number} */ sent) => {
      bar.style.width = percent(sent / Math.max(1, file.size)).replace(" ", "");
      words.textContent = sent < file.size ? percent(sent / Math.max(1, file.size)) : "reading";
    };
    return {
      async send() {
        if (ending.signal.aborted) return;
        try {
          if (!file.size) throw new Error(`${file.name} is empty (0 bytes)`);
          const state = await carry(file, told, ending.signal);
          item.remove();
          if (state) onState(state);
          else await onRefresh();
        } catch (error) {
          if (/** @type {any} */ (error).name === "AbortError") return;
          words.textContent = /** @type {Error} */ (error).message;
          words.className = "ink-problem";
          words.setAttribute("role", "alert");
          stop.textContent = "Dismiss";
          stop.setAttribute("aria-label", `Dismiss ${file.name}`);
        }
      },
    };
  }
  async function carry(/** @type {File} */ file, /** @type {(sent: number) => void} */ told, /** @type {AbortSignal} */ ending) {
    const { result: door } = await ask("door", {}, "door");
    const address = doorAddress(door);
    if (address && await throughDoor(address, file, told, ending)) return null;
    const key = `${Date.now().toString(36)}-${(uploads += 1)}`;
    return (await inPieces(ask, key, file, told, ending))?.state ?? null;
  }
  async function addText() {
    const text = box.value;
    if (!text) return;
    try {
      const { result } = await ask("text", { text }, "edit");
      box.value = "";
      add.disabled = true;
      onCost(null, "");
      onState(result.state);
    } catch (error) {
      onProblem(/** @type {Error} */ (error).message);
    }
  }
  async function toggle() {
    try {
      if (!recording) {
        recording = await record();
        mic.setAttribute("aria-pressed", "true");
        clock = window.setInterval(() => { mic.textContent = `Stop · ${recording?.seconds().toFixed(0)} s`; }, 250);
        mic.textContent = "Stop · 0 s";
        return;
      }
      const done = recording;
      recording = null;
      take([await done.stop()]);
    } catch (error) {
      recording = null;
      const { name, message } = /** @type {Error} */ (error);
      onProblem(name === "NotAllowedError" ? "The browser does not let this page use the microphone: allow it beside the address." : message);
    }
    clearInterval(clock);
    mic.textContent = "Record";
    mic.setAttribute("aria-pressed", "false");
  }
  picker.addEventListener("change", () => {
    take([...picker.files]);
    picker.value = "";
  }, { signal });
  box.addEventListener("input", () => {
    add.disabled = !box.value;
    onCost(box.value ? { action: "text", value: box.value } : null, "Adding this text");
  }, { signal });
  box.addEventListener("paste", (/** @type {ClipboardEvent} */ event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    take(files);
  }, { signal });
  const el = element("div", { class: "ink-adding" }, [zone, list, element("div", { class: "ink-compose" }, [box, add])]);
  const carriesFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
  for (const name of ["dragover", "dragenter"]) {
    el.addEventListener(name, (/** @type {DragEvent} */ event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      event.stopPropagation(); // notebooks take dropped files for themselves
      zone.classList.add("is-over");
    }, { signal });
  }
  el.addEventListener("dragleave", (/** @type {DragEvent} */ event) => {
    if (!el.contains(/** @type {Node} */ (event.relatedTarget))) zone.classList.remove("is-over");
  }, { signal });
  el.addEventListener("drop", (/** @type {DragEvent} */ event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    zone.classList.remove("is-over");
    take([...(event.dataTransfer?.files ?? [])]);
  }, { signal });
  return { el, end: () => { clearInterval(clock); recording?.stop().catch(() => {}); } };
}
