// What one capture has more than another.

import { percent } from "../_shared/format.js";

/** @param {Float32Array} a @param {Float32Array} b @returns {Float32Array} */
export const minus = (a, b) => a.map((value, i) => value - b[i]);

/** A share with its sign. @param {number} share */
export const signedPercent = (share) => (Math.abs(share) < 5e-5 ? "0" : `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`);
