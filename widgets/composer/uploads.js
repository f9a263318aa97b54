// Files on their way to Python: one HTTP request through Jupyter's proxy where there is one, else pieces by questions, in order.

export const PIECE_BYTES = 512 << 10; // a question stays far below the 10 MB at which a notebook's socket breaks

/** Base64 of some bytes, in steps that a call's arguments can hold. @param {Uint8Array} bytes */
export function toBase64(bytes) {
  let raw = "";
  for (let at = 0; at < bytes.length; at += 0x8000) raw += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(raw);
}

/** Address of the door through Jupyter's proxy; null where the page is no Jupyter page. @param {{port: number, secret: string}} door */
export function doorAddress(door) {
  const config = globalThis.document?.getElementById("jupyter-config-data")?.textContent;
  if (!config) return null;
  const base = JSON.parse(config).baseUrl ?? "/";
  return `${base}proxy/${door.port}/${door.secret}`;
}

/**
 * One request with progress. Resolves to false when the door cannot be reached: then the file goes in pieces.
 * @param {string} address @param {File} file @param {(sent: number) => void} told @param {AbortSignal} signal
 * @returns {Promise<boolean>}
 */
export function throughDoor(address, file, told, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const cookie = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
    request.open("PUT", `${address}?name=${encodeURIComponent(file.name)}`);
    if (cookie) request.setRequestHeader("X-XSRFToken", cookie);
    request.upload.onprogress = (event) => told(event.loaded);
    request.onload = () => {
      if (request.status === 200) return resolve(true);
      if (request.status !== 422 && request.status !== 413) return resolve(false);
      return reject(new Error(JSON.parse(request.responseText).message));
    };
    request.onerror = () => resolve(false);
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
}

/**
 * In pieces: each waits for the answer to the one before, so nothing piles up. Resolves to the last answer.
 * @param {(verb: string, args: any, lane: string) => Promise<{result: any}>} ask @param {string} key @param {File} file
 * @param {(sent: number) => void} told @param {AbortSignal} signal
 */
export async function inPieces(ask, key, file, told, signal) {
  let result = null;
  for (let offset = 0; offset < file.size; offset += PIECE_BYTES) {
    if (signal.aborted) {
      await ask("drop", { key }, `upload-${key}`);
      throw new DOMException("stopped", "AbortError");
    }
    const bytes = new Uint8Array(await file.slice(offset, offset + PIECE_BYTES).arrayBuffer());
    ({ result } = await ask("upload", { key, name: file.name, size: file.size, offset, data: toBase64(bytes) }, `upload-${key}`));
    told(Math.min(file.size, offset + bytes.length));
  }
  return result;
}
