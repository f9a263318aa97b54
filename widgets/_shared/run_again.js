// A notebook's code cells run again from the first to the one that shows a widget, as the reader would run them: outputs and counts are
// the notebook's own. Only what JupyterLab's and Notebook 7's widget manager gives is used; elsewhere it is not offered.

/** Place of the cell that shows `el`, or -1. @param {HTMLElement} el */
export function cellOf(el) {
  const cell = /** @type {HTMLElement | null} */ (el.closest?.(".jp-Cell"));
  if (!cell) return -1;
  const known = cell.dataset.windowedListIndex;
  return known != null ? Number(known) : [...(cell.closest(".jp-Notebook")?.querySelectorAll(".jp-Cell") ?? [])].indexOf(cell);
}

/** @param {any} manager the host's widget manager @param {HTMLElement} el */
export function canRunAgain(manager, el) {
  return Boolean(manager?.context?.model?.cells && manager.context.sessionContext) && cellOf(el) >= 0;
}

/**
 * @param {any} manager @param {HTMLElement} el @param {(words: string) => void} told what happens
 * @throws {Error} a cell failed, and which
 */
export async function runAgain(manager, el, told) {
  const { model, sessionContext } = manager.context;
  const last = cellOf(el);
  await sessionContext.ready;
  for (let i = 0; i <= last; i += 1) {
    const cell = model.cells.get(i);
    const code = cell.type === "code" ? cell.sharedModel.getSource() : "";
    if (!code.trim()) continue;
    told(`Running cell ${i + 1} of ${last + 1}…`);
    const future = sessionContext.session.kernel.requestExecute({ code, stop_on_error: true });
    let shown = false;
    future.onIOPub = (/** @type {any} */ { header, content }) => {
      if (!["stream", "display_data", "execute_result", "error"].includes(header.msg_type)) return;
      if (!shown) cell.outputs.clear();
      shown = true;
      const { transient: _, ...output } = content;
      cell.outputs.add({ ...output, output_type: header.msg_type });
    };
    const { content } = await future.done;
    if (!shown) cell.outputs.clear();
    cell.executionCount = content.execution_count ?? null;
    if (content.status !== "ok") throw new Error(`Cell ${i + 1} failed (${content.ename}: ${content.evalue}): mend it, and run the cells from there.`);
  }
}
