// @ts-check
// The page: files in, sentences out. Text from outside is only ever set as text, and nothing is sent.

import { Refusal, count, expect } from "./documents.js";
import { SCORES, near } from "./messages.js";
import { COMMAND, checkCurrent, grouping, isDifferent, readPlan, readPolicy, siteNames } from "./plans.js";
import { prepare, preview } from "./reports.js";
import { Table, decode } from "./tables.js";

const [BARS, HEIGHT, MOST_NAMES] = [40, 100, 500]; // of the histogram, and suggested names of sites
const $ = (id) => /** @type {any} */ (document.getElementById(id));
/** @type {any} The plan, the policy, the cases as a table and as scores with labels, and the text to save. */
const state = { plan: null, policy: {}, cases: null, scored: null, text: "", turn: 0 };

/** Make an element with attributes and children. @param {string} tag @param {any} attributes @param {any[]} children */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Show why something was refused, or nothing. @param {string} id @param {unknown} error */
function complain(id, error) {
  const reason = error instanceof Refusal ? error.message : `the page cannot read this: use ${COMMAND}`;
  $(id).textContent = error ? `${reason}.` : "";
}

// -- the plan and the policy -------------------------------------------------------------------------------

/** @param {string} text */
async function takePlan(text) {
  [state.plan, $("about").hidden] = [null, true];
  state.plan = await readPlan(text, JSON.parse($("schema").textContent));
  const { terms: { facts = {}, expires, model } = {}, designs, signer } = state.plan;
  const told = (/** @type {string[]} */ ...texts) => texts.filter(Boolean).join(", ") || "The plan does not say.";
  $("who").textContent = told(facts.coordinator, facts.contact);
  $("what").textContent = told(facts.purpose, facts.name && `model ${facts.name} ${facts.version ?? ""}`, facts.population);
  $("until").textContent = expires?.replace("T", ", ").replace("Z", " UTC") ?? told();
  $("model").textContent = model ?? told();
  $("names").replaceChildren(...(siteNames(designs[0]) ?? []).slice(0, MOST_NAMES).map((value) => element("option", { value })));
  [$("signed").hidden, $("about").hidden] = [!signer, false];
}

/** Take a file for what is wanted, or else for what its content shows it to be.
 * @param {File} file @param {string} [wanted] "plan", "policy" or "cases". */
async function takeFile(file, wanted) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  // Documents begin with a brace, policies end in .toml, and everything else is a table.
  const isDocument = /^\s*\{/.test(new TextDecoder().decode(bytes.slice(0, 100)));
  const kind = wanted || (isDocument ? "plan" : /\.toml$/i.test(file.name) ? "policy" : "cases");
  const text = () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  complain(`${kind}-refusal`, null);
  try {
    if (kind === "plan") await takePlan(text());
    if (kind === "policy") state.policy = readPolicy(text());
    if (kind === "cases") state.cases = new Table(decode(bytes), /\.tsv$/i.test(file.name));
    $(`${kind}-name`).textContent = `Read ${file.name}.`;
  } catch (error) {
    complain(`${kind}-refusal`, error);
    [state[kind], $(`${kind}-name`).textContent] = [null, ""];
  }
  showColumns();
}

// -- the cases ---------------------------------------------------------------------------------------------

/** Return whether the page computes the scores, from truth and predictions. @param {any} plan */
const isScored = (plan) => plan.score !== undefined && $("given").value === "cases";

/** Offer the columns of the table for what the plan needs. */
function showColumns() {
  const { plan, cases } = state;
  $("columns").hidden = !plan || !cases;
  $("given-field").hidden = !plan?.score;
  if (plan && cases) $("chosen").replaceChildren(...makeFields(plan, cases.names));
  takeCases();
}

/** @param {any} plan @param {string[]} names */
function makeFields(plan, names) {
  const { hasLabels, byClass } = grouping(plan);
  const columns = isScored(plan) ? SCORES[plan.score.name].columns : [];
  // Scores that were computed elsewhere take one column; the true class is the truth where that is a column.
  const needed = isScored(plan) ? ["Truth", ...(columns ?? [])] : ["Scores"];
  if (hasLabels && !(byClass && isScored(plan))) needed.push(byClass ? "True class" : "Group");
  const fields = needed.map((label, place) => {
    const namesake = names.find((name) => name.toLowerCase() === label.toLowerCase());
    const guess = names.length === needed.length ? names[place] : namesake;
    const items = ["", ...names].map((name) => new Option(name || "…", name, name === guess, name === guess));
    const select = element("select", { id: `column-${place}` }, ...items);
    return element("p", { class: "field" }, element("label", { for: select.id }, label), select);
  });
  if (columns) return fields;
  const boxes = names.map((name, i) => {
    const isClass = i > 0 && (plan.classes ?? [""]).some((ending) => name.endsWith(ending));
    const box = element("input", { type: "checkbox", value: name, ...(isClass && { checked: "" }) });
    return element("label", {}, box, ` ${name}`);
  });
  return [...fields, element("fieldset", {}, element("legend", {}, "Probabilities of the classes"), ...boxes)];
}

/** Read the chosen columns, and show what was understood. */
function takeCases() {
  const { plan, cases } = state;
  [state.scored, $("understood").hidden] = [null, true];
  if (cases) complain("cases-refusal", null);
  try {
    if (plan && cases) drawHistogram((state.scored = readCases(plan, cases)).scores);
  } catch (error) {
    complain("cases-refusal", error);
  }
  answer();
}

/** Return scores and labels from the chosen columns. @param {any} plan @param {Table} table */
function readCases(plan, table) {
  const chosen = [...$("chosen").querySelectorAll("select")].map((select) => select.value);
  const boxes = [...$("chosen").querySelectorAll("input:checked")].map((input) => input.value);
  expect(isDifferent(["", ...chosen, ...boxes]), "choose the columns, each of them once");
  const { hasLabels, byClass } = grouping(plan);
  const label = hasLabels ? (byClass && isScored(plan) ? chosen[0] : chosen.pop()) : null;
  const [decimal, names] = [$("decimal").value, [...chosen.slice(1), ...boxes]];
  const { compute } = isScored(plan) ? SCORES[plan.score.name] : { compute: () => table.numbers(chosen, decimal)[0] };
  const scores = compute(table, chosen[0], names, decimal, plan.classes);
  return { scores, labels: label === null ? null : table.labels(label) };
}

// -- what leaves -------------------------------------------------------------------------------------------

/** Prepare the report, and show all of it. */
async function answer() {
  const [{ plan, policy, scored }, site, turn] = [state, siteName(), (state.turn += 1)];
  [$("leaves").hidden, $("saved").textContent, state.text] = [true, "", ""];
  complain("answer-refusal", null);
  $("asks").textContent = plan ? preview(plan, site) : "";
  if (!plan || !scored || !site) return;
  try {
    const { scores, labels } = scored;
    const { sentence, meanings, text } = await prepare(plan, policy, site, scores, labels, isScored(plan));
    if (turn !== state.turn) return; // something has changed meanwhile
    const number = (value) => element("td", { class: "number" }, String(value).replace(/"/g, "")); // of "Infinity"
    const rows = meanings.map(([value, meaning]) => element("tr", {}, number(value), element("td", {}, meaning)));
    $("numbers").replaceChildren(...rows);
    [$("sentence").textContent, $("file").textContent, $("save").textContent] = [sentence, text, `Save ${fileName()}`];
    [$("leaves").hidden, state.text] = [false, text];
  } catch (error) {
    if (turn === state.turn) complain("answer-refusal", error);
  }
}

/** @param {Float64Array} scores */
function drawHistogram(scores) {
  const finite = scores.filter(Number.isFinite);
  // A loop over pairs, as Math.min(...scores) fails for a million of them.
  const [low, high] = finite.reduce(([a, b], score) => [Math.min(a, score), Math.max(b, score)], [Infinity, -Infinity]);
  const sizes = new Array(BARS).fill(0);
  for (const score of finite) sizes[Math.min(BARS - 1, Math.floor(((score - low) / (high - low || 1)) * BARS))] += 1;
  const most = Math.max(...sizes) || 1;
  $("bars").setAttribute("d", sizes.map((size, i) => `M${i + 0.05},0h0.9v${(HEIGHT * size) / most}h-0.9z`).join(""));
  const range = finite.length ? `Scores from ${near(low)} to ${near(high)}.` : "No score is finite.";
  $("rows").textContent = `${count(scores.length, "row")} read, none refused. ${range}`;
  $("understood").hidden = false;
}

// Spaces around a name are slips, and accents have one form in documents.
const siteName = () => $("site").value.trim().normalize("NFC");
const fileName = () => `${siteName().replace(/[\\/:*?"<>|]/g, "_")}.json`;

/** Save the file as it was shown, unless the plan has expired meanwhile. */
function save() {
  try {
    checkCurrent(state.plan);
    const href = URL.createObjectURL(new Blob([state.text], { type: "application/json" }));
    element("a", { href, download: fileName() }).click();
    $("saved").textContent = `Saved ${fileName()}: send it to whoever sent you the plan.`;
  } catch (error) {
    complain("answer-refusal", error);
  }
}

const takeFiles = (/** @type {FileList} */ files, kind = "") => [...files].forEach((file) => takeFile(file, kind));
for (const kind of ["plan", "policy", "cases"]) $(`${kind}-file`).onchange = (event) => takeFiles(event.target.files, kind);
// A corrected file of the same name is taken again: without this no browser tells of it.
document.addEventListener("click", (/** @type {any} */ { target }) => target.type === "file" && (target.value = ""));
$("paste").addEventListener("paste", (event) => {
  event.preventDefault(); // cells do not go into the field, as there may be millions
  takeFile(new File([event.clipboardData.getData("text/plain")], "pasted cells"));
});
$("paste").addEventListener("input", () => takeFile(new File([$("paste").value], "typed cells")));
$("given").addEventListener("change", showColumns);
for (const kind of ["input", "change"]) for (const id of ["chosen", "decimal"]) $(id).addEventListener(kind, takeCases);
$("site").addEventListener("input", answer);
$("save").addEventListener("click", save);
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (/** @type {any} */ event) => {
  event.preventDefault();
  takeFiles(event.dataTransfer.files);
});
