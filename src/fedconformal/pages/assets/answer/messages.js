// @ts-check
// What a site computes and sends: scores from cases; and ranks or counts of these scores.

import { Float, count, expect, quoted } from "./documents.js";

/** @typedef {import("./tables.js").Table} Table */
export const near = (value) => String(Number(value.toPrecision(4)));
const withUnit = (value, unit = "") => `${near(value)} ${unit}`.trim();

// -- scores: the columns that each needs, how it is computed, and what one of them tells ---------------------

/** Return a score of the truth and a predicted band, max(lower - y, y - upper) / scale.
 * @param {(row: number[]) => number[]} band Lower end, upper end and scale of one row. */
const distance = (band) => (/** @type {Table} */ table, target, names, decimal) => {
  const [truth, ...predicted] = table.numbers([target, ...names], decimal);
  const values = (row) => predicted.map((column) => column[row]);
  const scores = truth.map((y, row) => {
    const [lower, upper, scale] = band(values(row));
    return values(row).every(Number.isFinite) && scale > 0 ? Math.max(lower - y, y - upper) / scale : NaN;
  });
  table.checkRows(names, "finite numbers, and a spread above 0 where there is one", scores, (row) => values(row).join(", "));
  return scores;
};

/** @type {Record<string, any>} */
export const SCORES = {
  absolute: {
    columns: ["Prediction"],
    compute: distance(([center]) => [center, center, 1]),
    tells: (value, unit) => `for one of your cases the model was off by ${withUnit(value, unit)}`,
  },
  normalized: {
    columns: ["Predicted mean", "Predicted spread (sigma)"],
    compute: distance(([mean, sigma]) => [mean, mean, sigma]),
    tells: (value) => `for one of your cases the error was ${near(value)} times the predicted spread`,
  },
  cqr: {
    columns: ["Lower quantile", "Upper quantile"],
    compute: distance(([lower, upper]) => [lower, upper, 1]),
    tells: (value, unit) =>
      `for one of your cases the truth was ${withUnit(Math.abs(value), unit)} ` +
      `${value > 0 ? "outside" : "inside"} the predicted range`,
  },
  lac: {
    columns: null, // one for each class
    compute: (/** @type {Table} */ table, target, names, decimal, classes) => {
      const columns = table.numbers(inClassOrder(names, classes), decimal);
      const [truth, row] = [classPlaces(table, target, names, classes), (i) => columns.map((column) => column[i])];
      const scores = Float64Array.from(truth, (place, i) => {
        // As in Python: each probability lies between 0 and 1, and a row sums to 1, up to rounding.
        const sum = row(i).reduce((total, p) => (p >= 0 && p <= 1 + 1e-6 ? total + p : NaN), 0);
        return sum >= 1 - 1e-3 && sum <= 1 + 1e-3 ? 1 - columns[place][i] : NaN;
      });
      table.checkRows(names, "probabilities that sum to 1 within 0.001 in each row", scores, (i) => row(i).join(", "));
      return scores;
    },
    tells: (value) => `for one of your cases the model gave the true class a probability of ${near(1 - value)}`,
  },
};

/** Return columns in the order of the plan's classes, after which they are named, perhaps with a common beginning.
 * @param {string[]} names @param {string[]} [classes] */
export function inClassOrder(names, classes) {
  expect(names.length > 1, "choose a column of probabilities for each class");
  const isUnnamed = names.every((name, i) => name === `column_${i + 1}`); // as tables call them
  if (!classes || (isUnnamed && names.length === classes.length)) return names;
  // Names of columns may begin alike, such as p_sick and p_well for the classes sick and well.
  const shared = Math.max(0, Math.floor(([...names.join("")].length - [...classes.join("")].length) / classes.length));
  const known = names.map((name) => [...name].slice(shared).join(""));
  const isAlike = names.every((name, i) => name === [...names[0]].slice(0, shared).join("") + known[i]);
  const isNamed = isAlike && names.length === classes.length && classes.every((name) => known.includes(name));
  expect(isNamed, `columns of probabilities must be named after the classes, ${quoted(classes)}, got ${quoted(names)}`);
  return classes.map((name) => names[known.indexOf(name)]);
}

/** Return the true class of each row as its place: by name, or by number where no column has a number for a name.
 * @param {Table} table @param {string} target @param {string[]} columns @param {string[]} [classes] */
function classPlaces(table, target, columns, classes) {
  const [labels, names] = [table.labels(target), classes ?? columns];
  const places = new Map(names.map((name, i) => [name, i]));
  const isNumber = (label) => /^[0-9]{1,9}$/.test(label) && !places.has(label);
  const byNumber = !classes && !columns.every((name) => /^\p{Nd}+$/u.test(name)) && labels.every(isNumber);
  const truth = labels.map((label) => (byNumber ? Number(label) : (places.get(label) ?? NaN)));
  const known = truth.map((place) => (place < names.length ? place : NaN));
  table.checkRows([target], `classes, ${quoted(names)}`, known, (row) => labels[row]);
  return truth;
}

// -- ranks by the rule of an open plan ----------------------------------------------------------------------

/** Return numerator and denominator. @param {string} text Such as "0.9" or "1/3". */
export function ratio(text) {
  const [above, below] = text.split("/");
  const [integer, decimals = ""] = above.split(".");
  return [BigInt(integer + decimals), BigInt(below ?? 10n ** BigInt(decimals.length))];
}

/** Return the ranks that a site of n scores sends. @param {any} rule @param {string} level @param {number} n */
export function ranksOfRule(rule, level, n) {
  const [above, below] = ratio(rule.share);
  const middle = Number((above * BigInt(n + 1) + below - 1n) / below);
  if (rule.spacing === undefined) return [middle];
  const [[p, q], [s, t], numbers] = [ratio(level), ratio(rule.spacing), Math.min(rule.numbers, n)];
  const [wide, square] = [(10n * BigInt(n)) ** 2n, (25n * s * s * BigInt(n) * p * (q - p)) / (t * t * q * q)];
  // The integer square root of a BigInt: the float64 may be off by one in either direction.
  let root = BigInt(Math.floor(Math.sqrt(Number(square < wide ? square : wide))));
  if (root * root > square) root -= 1n;
  if (square < wide && (root + 1n) * (root + 1n) <= square) root += 1n;
  const widest = Math.floor((n - 1) / Math.max(numbers - 1, 1));
  const step = Math.min(Math.max(1, Number((3n + root) / 5n)), widest) || 1;
  const first = Math.min(Math.max(middle - Math.floor(((numbers - 1) * step) / 2), 1), n - (numbers - 1) * step);
  return Array.from({ length: numbers }, (_, i) => first + i * step);
}

// -- messages: each counts what leaves, describes it as Python does, makes it, and explains every number -----

const ending = (number) => (Math.floor(number / 10) % 10 !== 1 && ["th", "st", "nd", "rd"][number % 10]) || "th";
const ordinal = (/** @type {number} */ number) => number.toLocaleString("en-US") + ending(number);
const percent = (level) => `${near((100 * Number(ratio(level)[0])) / Number(ratio(level)[1]))} %`;
// By the rule where sizes are open, so that there are no places, else as the plan lists them.
const ranksFor = ({ message, levels }, n, place) =>
  message.levels.map(({ rule, ranks }, i) => ranks?.[place] ?? ranksOfRule(rule, levels[i].confidence_level, n));
const different = (ranks, n) => [...new Set(ranks.flat())].filter((rank) => rank <= n).sort((a, b) => a - b);
const countCells = (message) => message.edges.length + Number(message.bounded ?? false);

/** @type {Record<string, any>} */
export const MESSAGES = {
  ranks: {
    schema: "Ranks",
    countNumbers: (design, n, place) => {
      const ranks = ranksFor(design, n, place); // the number of scores leaves even where no score does
      return ranks.flat().length && Math.max(1, different(ranks, n).length);
    },
    describe: (design, n, place) => {
      const sent = different(ranksFor(design, n, place), n);
      const which = sent.slice(0, 5).map(ordinal).join(", ") + (sent.length > 5 ? ", ..." : "");
      return `${sent.length || "none"} of your ${count(n, "score")}${sent.length ? ` (the ${which} smallest)` : ""}`;
    },
    answer: (design, sorted, place) => {
      const value = (rank) => new Float(rank > sorted.length ? Infinity : sorted[rank - 1]);
      const levels = ranksFor(design, sorted.length, place).map((ranks) => ({ ranks, values: ranks.map(value) }));
      return { kind: "ranks", levels };
    },
    explain: (design, payload, n, tells) => {
      const few = (level) => `No score: ${count(n, "case")} are too few for a finite threshold at the ${level} level.`;
      const rest = (rank) => `${count(rank - 1, "other score")} of yours ${rank === 2 ? "is" : "are"} no larger`;
      const which = (rank) => `The ${ordinal(rank)} smallest of your ${count(n, "score")}`;
      const meaning = (rank, value, level) => `${which(rank)}, for the ${level} level: ${tells(value)}; ${rest(rank)}.`;
      return payload.levels.flatMap(({ ranks, values }, i) => {
        const level = percent(design.levels[i].confidence_level);
        return ranks.map((rank, j) => [values[j], rank > n ? few(level) : meaning(rank, values[j].value, level)]);
      });
    },
  },
  curve: {
    schema: "Curve",
    addsUp: true,
    countNumbers: (design) => countCells(design.message),
    describe: ({ message }, n) =>
      `the counts of your ${count(n, "score")} in ${count(countCells(message), "cell")}, ` +
      "which show every score up to the width of a cell",
    answer: (design, sorted, _place, smallest) => {
      const counts = new Array(countCells(design.message)).fill(0);
      let cell = 0;
      for (const score of sorted) {
        while (cell < counts.length - 1 && score > design.message.edges[cell].value) cell += 1;
        counts[cell] += 1;
      }
      return { kind: "curve", counts: counts.map((each) => (each < smallest ? 0 : each)) };
    },
    explain: ({ message }, { counts }, _n, _tells, smallest) => {
      const bound = (word, i) => (i >= 0 && i < counts.length - 1 ? [`${word} ${message.edges[i].value}`] : []);
      const range = (i) => [...bound("above", i - 1), ...bound("up to", i)].join(" and ");
      const cut = (each) => (each < smallest ? `, 0 for fewer than ${smallest}` : "");
      return counts.map((each, i) => [each, `The number of your scores ${range(i)}${cut(each)}.`]);
    },
  },
};
