// Which spans are listed. Pure, so that it is tested without a page.

/** @param {Uint8Array} bytes little-endian uint32 at any offset @returns {Uint32Array} */
export function uint32(bytes) {
  return new Uint32Array(bytes.slice().buffer, 0, bytes.byteLength >> 2);
}

/**
 * Indices of the spans that are shown, in order.
 * @param {string[]} labels @param {Uint8Array} kinds @param {Set<number>} hidden kinds left out @param {string} search part of a label
 * @returns {number[]}
 */
export function filterSpans(labels, kinds, hidden, search) {
  const wanted = search.trim().toLowerCase();
  const found = [];
  for (let i = 0; i < kinds.length; i += 1) {
    if (!hidden.has(kinds[i]) && (!wanted || labels[i].toLowerCase().includes(wanted))) found.push(i);
  }
  return found;
}
