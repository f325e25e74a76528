// @ts-check
// Tables as spreadsheets copy and save them: every line is a case, and a doubtful cell is refused, not guessed.

import { Refusal, count, expect, quoted } from "./documents.js";

// Numbers; words for what is no number; cells that may be thousands or have three decimals; decimal points and commas.
const NUMBER = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const WORD = /^([+-]?)(?:inf|infinity|nan)$/i;
const AMBIGUOUS = /^\s*[+\u2212-]?[1-9][0-9]{0,2}[.,][0-9]{3}\s*$/;
const POINT = /^\s*[+\u2212-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$/;
const COMMA = /^\s*[+\u2212-]?(?:[0-9]+,[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$/;
const SHOWN = 5; // refused lines that are listed

/** Decode a file: UTF-8, the encoding of Windows, or UTF-16 with a byte-order mark. @param {Uint8Array} bytes */
export function decode(bytes) {
  const starts = (/** @type {number[]} */ ...mark) => mark.every((byte, i) => bytes[i] === byte);
  expect(!starts(0x50, 0x4b, 3, 4), "this is a workbook: copy its columns and paste them here, or save it as CSV");
  const read = (encoding) => new TextDecoder(encoding, { fatal: true }).decode(bytes);
  if (starts(0xff, 0xfe)) return read("utf-16le");
  if (starts(0xfe, 0xff)) return read("utf-16be");
  try {
    return read("utf-8");
  } catch {
    return read("windows-1252");
  }
}

/** Return the number in a cell, NaN if there is none. @param {string} cell @param {string} decimal */
function toNumber(cell, decimal) {
  // U+2212 is the minus sign of typeset text. With decimal commas, a point makes a cell unreadable.
  let text = cell.trim().replace("\u2212", "-");
  if (decimal === ",") text = text.replace(".", "x").replace(",", ".");
  if (NUMBER.test(text)) return Number(text);
  return /^[+-]?inf/i.test(text) && WORD.test(text) ? Infinity * (text.startsWith("-") ? -1 : 1) : NaN;
}

/** A table with the names of its columns, whose cells are read when they are needed. */
export class Table {
  /** @param {string} content @param {boolean} hasTabs Whether the name of the file implies tabs. */
  constructor(content, hasTabs = false) {
    const text = content.replace(/\r\n/g, "\n").replace(/^\ufeff/, "");
    const isText = !/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufeff]/.test(text);
    expect(isText, "the table has control characters, so it may be another kind of file: save it as CSV (UTF-8)");
    this.lines = text.split("\n");
    if (this.lines.length > 1 && this.lines[this.lines.length - 1] === "") this.lines.pop();
    const [, announced] = /^"?sep=([;,\t])"?\s*$/i.exec(this.lines[0]) ?? []; // a line of Excel before the names
    if (announced) this.lines.shift();
    this.first = announced ? 3 : 2; // line of the first case
    const head = this.lines.shift() ?? "";
    const found = ["\t", ";", ","].find((mark) => head.replace(/"[^"]*"/g, "").includes(mark));
    this.separator = announced ?? (hasTabs ? "\t" : (found ?? ";"));
    this.grammar = new RegExp(`("(?:[^"]|"")*"|[^"${this.separator}]*)(${this.separator}|$)`, "y");
    const heads = this.split(head, this.first - 1).map((cell) => cell.trim());
    while (heads.length > 1 && heads[heads.length - 1] === "") heads.pop();
    const isNamed = heads.some(Boolean) && !heads.every((cell) => NUMBER.test(cell.replace(",", ".")) || WORD.test(cell));
    expect(isNamed, "the first line must hold the names of the columns: copy it with the cells");
    this.names = heads.map((name, i) => name || `column_${i + 1}`);
    const twice = this.names.filter((name, i) => this.names.indexOf(name) < i);
    expect(!twice.length, `two columns are called ${quoted(twice.slice(0, 1))}: each needs a name of its own`);
    expect(this.lines.length, "there are no cases below the first line");
  }

  /** Return the cells of a line. @param {string} line @param {number} number Of the line. */
  split(line, number) {
    if (!line.includes('"')) return line.split(this.separator);
    const cells = [];
    for (this.grammar.lastIndex = 0; ; ) {
      const match = this.grammar.exec(line);
      expect(match, `a quotation mark is not closed or not doubled in line ${number}`);
      cells.push(match[1].startsWith('"') ? match[1].slice(1, -1).replace(/""/g, '"') : match[1]);
      if (match[2] === "") return cells;
    }
  }

  /** Return the cells of some columns. @param {string[]} names @returns {string[][]} */
  columns(names) {
    const [places, width] = [names.map((name) => this.names.indexOf(name)), this.names.length];
    const columns = names.map(() => new Array(this.lines.length));
    this.lines.forEach((line, row) => {
      const cells = this.split(line, this.first + row);
      if (cells.length > width && cells.slice(width).join("") !== "")
        // expect() would be slow here
        throw new Refusal(`line ${this.first + row} has more than the ${count(width, "cell")} of the first line`);
      places.forEach((place, i) => (columns[i][row] = cells[place] ?? ""));
    });
    return columns;
  }

  /** Refuse rows whose value is NaN, with their number and the first lines.
   * @param {string[]} columns @param {string} rule @param {ArrayLike<number>} values
   * @param {(row: number) => string} cell What is shown of a row. */
  checkRows(columns, rule, values, cell) {
    const wrong = [];
    for (let row = 0; row < values.length; row += 1) if (Number.isNaN(values[row])) wrong.push(row);
    const show = (row) => `line ${this.first + row} (${cell(row) ? quoted([cell(row)]) : "empty"})`;
    // Name the first lines, so that they can be found in the spreadsheet.
    const places = [...wrong.slice(0, SHOWN).map(show), ...(wrong.length > SHOWN ? ["..."] : [])];
    const rows = `${wrong.length.toLocaleString("en-US")} of ${count(values.length, "row")}`;
    expect(!wrong.length, `${quoted(columns)} must hold ${rule}; refused: ${rows}, ${places.join(", ")}`);
  }

  /** Return columns as numbers. @param {string[]} names @param {string} decimal "." or ",", or "" to detect it. */
  numbers(names, decimal) {
    const columns = this.columns(names);
    const sign = decimal || this.detectDecimal(names, columns);
    return columns.map((cells, i) => {
      const values = Float64Array.from(cells, (cell) => toNumber(cell, sign));
      const rule = `numbers, here with decimal ${sign === "." ? "points" : "commas"}`;
      this.checkRows([names[i]], rule, values, (row) => cells[row].trim());
      return values;
    });
  }

  /** Return the decimal sign of the cells that can be read in one way only.
   * @param {string[]} names @param {string[][]} columns */
  detectDecimal(names, columns) {
    // One cell that can be read in one way decides for all; 1,234 and 1.234 decide nothing.
    const isSplitByCommas = this.names.length > 1 && this.separator === ",";
    let [doubt, hasCommas] = ["", false];
    for (const [i, cells] of columns.entries()) {
      for (const [row, cell] of cells.entries()) {
        const isDoubtful = AMBIGUOUS.test(cell);
        if (!isDoubtful && POINT.test(cell)) return ".";
        hasCommas ||= !isDoubtful && COMMA.test(cell);
        if (isDoubtful && !(isSplitByCommas && !cell.includes(",")))
          doubt ||= `${quoted([names[i]])}: ${cell.trim()} in line ${this.first + row}`;
      }
    }
    expect(!doubt || hasCommas, `${doubt} may be a thousand or more, or have three decimals: choose the decimal sign`);
    return hasCommas ? "," : ".";
  }

  /** Return a column as text, whole numbers without decimals. @param {string} name */
  labels(name) {
    const whole = /^([0-9]+)(?:\.0*)?(?:[eE][+-]?0+)?$/;
    const labels = this.columns([name])[0].map((cell) => cell.trim().replace(whole, "$1"));
    const filled = labels.map((label) => (label === "" ? NaN : 0));
    this.checkRows([name], "a label in every row", filled, (row) => labels[row]);
    return labels;
  }
}
