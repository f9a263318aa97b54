// One keyboard scheme for every canvas: arrows move, Home and End go to the ends, Page keys by a page, + − 0 zoom, Enter chooses,
// Escape lets go, Shift extends.

/** @type {Record<string, string>} */
const NAMES = {
  ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", Home: "home", End: "end", PageUp: "pageUp",
  PageDown: "pageDown", "+": "zoomIn", "=": "zoomIn", "-": "zoomOut", _: "zoomOut", 0: "zoomAll", Enter: "choose", " ": "choose",
  Escape: "leave",
};

/**
 * @param {HTMLElement} el focusable element
 * @param {Partial<Record<"left"|"right"|"up"|"down"|"home"|"end"|"pageUp"|"pageDown"|"zoomIn"|"zoomOut"|"zoomAll"|"choose"|"leave",
 *   (extend: boolean) => void>>} actions
 * @param {AbortSignal} signal
 */
export function bindKeys(el, actions, signal) {
  el.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actions[/** @type {keyof typeof actions} */ (NAMES[event.key])];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation(); // notebooks bind the same keys
    action(event.shiftKey);
  }, { signal });
}
