// @ts-check
// Documents as Python reads and writes them: strict JSON, floats to the last digit, digests, printable text.

/** The reason why something is refused, as one sentence. */
export class Refusal extends Error {}

/** Refuse unless a condition holds.
 * @param {unknown} condition @param {string} sentence @returns {asserts condition} */
export function expect(condition, sentence) {
  if (!condition) throw new Refusal(sentence);
}

/** A float64, which documents write with a point or an exponent. */
export class Float {
  /** @param {number} value */
  constructor(value) {
    this.value = value + 0; // there is one zero
  }

  /** Write the fewest digits that give the same float64, as Python does: 4.0, 1e-07, 1e+16. */
  toString() {
    if (this.value === Infinity) return '"Infinity"';
    // The browser finds the fewest digits; only the place of the point differs from Python's.
    const [mantissa, power] = Math.abs(this.value).toExponential().split("e");
    const [digits, exponent, sign] = [mantissa.replace(".", ""), Number(power), this.value < 0 ? "-" : ""];
    const size = String(Math.abs(exponent)).padStart(2, "0");
    if (exponent < -4 || exponent > 15) return `${sign}${mantissa}e${exponent < 0 ? "-" : "+"}${size}`;
    if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
    const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
    return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
  }
}

// -- JSON --------------------------------------------------------------------------------------------------

/** Read strict JSON, in which no field occurs twice. A number with a point or an exponent becomes a Float, and
 * a whole number that is too large for a float64 a BigInt, so that it is written as it was read.
 * @param {string} text @returns {any} */
export function readJson(text) {
  let fields = 0;
  // Take the marks off again; every field that is there counts one colon.
  const revive = (value) => {
    if (typeof value === "string") return value.startsWith("s") ? value.slice(1) : readNumber(value.slice(1));
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(revive);
    const names = Object.keys(value);
    expect(!names.some((name) => name.startsWith("n")), "a field has a number for a name");
    fields -= names.length;
    const entries = names.map((name) => [name.slice(1), revive(value[name])]);
    return Object.assign(Object.create(null), Object.fromEntries(entries)); // "__proto__" is a name like others
  };
  try {
    // Strings get an s and numbers an n in front, and so become strings, too.
    const tagged = text.replace(/"(?:[^"\\]|\\.)*(?:"|$)|-?[0-9][0-9.eE+-]*|:/g, (token) => {
      fields += Number(token === ":");
      return token === ":" ? token : token.startsWith('"') ? `"s${token.slice(1)}` : `"n${token}"`;
    });
    const content = revive(JSON.parse(tagged));
    // JSON.parse keeps one of two fields with the same name, so that a colon is left over.
    expect(fields === 0, "a field occurs twice");
    return content;
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal("it is not JSON, was cut short, or is nested too deeply");
  }
}

/** @param {string} token */
function readNumber(token) {
  const number = Number(token);
  if (/^-?(?:0|[1-9][0-9]*)$/.test(token)) return Number.isSafeInteger(number) ? number : BigInt(token);
  expect(String(new Float(number)) === token, `the number ${token.slice(0, 40)} is not written as documents write it`);
  return new Float(number);
}

/** Write JSON: "canonical" for digests, with sorted fields and no spaces; in one "line"; or "indented".
 * @param {any} value @param {"canonical" | "line" | "indented"} form @returns {string} */
export function writeJson(value, form, indent = "\n") {
  if (value instanceof Float || value === null) return String(value);
  if (typeof value !== "object") return typeof value === "string" ? JSON.stringify(value) : String(value);
  const [isCanonical, inner] = [form === "canonical", `${indent}  `];
  const names = isCanonical ? Object.keys(value).sort() : Object.keys(value);
  const field = (name) => `${JSON.stringify(name)}:${isCanonical ? "" : " "}${writeJson(value[name], form, inner)}`;
  const items = Array.isArray(value) ? value.map((each) => writeJson(each, form, inner)) : names.map(field);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (form !== "indented" || !items.length) return open + items.join(isCanonical ? "," : ", ") + close;
  return open + inner + items.join(`,${inner}`) + indent + close;
}

/** Return SHA-256 of a text in UTF-8, as hexadecimal digits. @param {string} text */
export async function sha256(text) {
  expect(globalThis.crypto?.subtle, "this browser computes digests for files and https alone: open the page as a file");
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// -- text --------------------------------------------------------------------------------------------------

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u; // moves a cursor, turns a line, or shows nothing
const INVISIBLE = /[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;

/** Return whether it is one printable line without spaces around it.
 * @param {unknown} text @param {number} longest @returns {text is string} */
export const isLine = (text, longest) => typeof text === "string" && isPrintable(text) && [...text].length <= longest;
const isPrintable = (/** @type {string} */ text) => text !== "" && text === text.trim() && !UNPRINTABLE.test(text);

/** Return whether a site may have this name. @param {unknown} name */
export const isSiteName = (name) => isLine(name, 200) && !INVISIBLE.test(name) && name === name.normalize("NFC");

/** Write a few names as refusals do. @param {readonly string[]} names */
export function quoted(names) {
  const shorten = (name) => ([...name].length > 40 ? `${[...name].slice(0, 37).join("")}...` : name);
  const shown = names.slice(0, 5).map((name) => `'${shorten(name)}'`);
  return shown.join(", ") + (names.length > 5 ? ", ..." : "");
}

/** Write "1 score" or "2,000 scores". @param {number} number @param {string} word */
export const count = (number, word) => `${number.toLocaleString("en-US")} ${word}${number === 1 ? "" : "s"}`;
