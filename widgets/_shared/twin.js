// The static picture that a notebook keeps beside each widget.

/**
 * A notebook keeps a static picture beside the widget, for when nothing runs; a live widget hides it.
 * @param {HTMLElement} el the widget's element @param {boolean} hidden
 */
export function hideTwin(el, hidden) {
  for (const twin of el.closest(".jp-OutputArea")?.querySelectorAll("figure.inkling-twin") ?? []) {
    const child = /** @type {HTMLElement} */ (twin.closest(".jp-OutputArea-child") ?? twin);
    child.style.display = hidden ? "none" : "";
  }
}
