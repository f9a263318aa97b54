// Binary traits and replies as typed arrays. Hosts hand over DataViews at any offset; typed arrays need theirs aligned.

/** @typedef {DataView | Uint8Array | ArrayBuffer} Bytes */

/** @param {Bytes | undefined} value @returns {Uint8Array} */
export function asUint8(value) {
  if (!value) return new Uint8Array(0);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

/** @param {Bytes | undefined} value @returns {Float32Array} */
export function asFloat32(value) {
  const bytes = asUint8(value);
  return new Float32Array(bytes.slice().buffer, 0, bytes.byteLength >> 2);
}

/** @param {Bytes | undefined} value @returns {Uint16Array} */
export function asUint16(value) {
  const bytes = asUint8(value);
  return new Uint16Array(bytes.slice().buffer, 0, bytes.byteLength >> 1);
}

/** @param {string} text base64 @returns {Uint8Array} */
export function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
