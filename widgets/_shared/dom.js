// Elements in one call, without a framework.

/**
 * @param {string} tag @param {Record<string, any>} [properties] `class`, `text`, aria-* and other attributes
 * @param {(Node | string)[]} [children]
 * @returns {any}
 */
export function element(tag, properties = {}, children = []) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value == null) continue;
    if (name === "text") made.textContent = value;
    else made.setAttribute(name === "class" ? "class" : name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/**
 * A labelled choice.
 * @param {string} label @param {[string, string][]} options value and words @param {string} value
 * @param {(value: string) => void} chosen @param {AbortSignal} signal
 */
export function choice(label, options, value, chosen, signal) {
  const select = element("select", {}, options.map(([key, words]) => element("option", { value: key, text: words })));
  select.value = value;
  select.addEventListener("change", () => chosen(select.value), { signal });
  return { el: element("label", { class: "ink-choice" }, [element("span", { text: label }), select]), select };
}

/** @param {string} text @param {string} label @param {() => void} pressed @param {AbortSignal} signal */
export function button(text, label, pressed, signal) {
  const made = element("button", { type: "button", class: "ink-button", "aria-label": label, title: label, text });
  made.addEventListener("click", pressed, { signal });
  return made;
}
