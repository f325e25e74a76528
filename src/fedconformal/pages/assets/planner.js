// The page asks, Python answers: nothing is computed here but where a slider stands.

const $ = (id) => document.getElementById(id);
const say = (name, values = {}) => $(`say-${name}`).textContent.replace(/\{(\w+)\}/g, (_, key) => values[key]);
const brief = (text) => ({ text: text.slice(0, 30) });
const REST = 160; // milliseconds without a change after which comparisons are searched

// -- sliders: one beside each number, some on a logarithmic scale ------------------------------------------

const linear = { to: (slider) => Number(slider.value), from: (value) => value };

function logarithmic(low, high, digits) {
  const span = Math.log(high / low);
  return {
    to: (slider) => {
      const value = low * Math.exp((slider.value / 1000) * span);
      return Number(value.toPrecision(digits)) * 1;
    },
    from: (value) => (1000 * Math.log(Math.max(value, low) / low)) / span,
  };
}

const whole = (scale) => ({ ...scale, to: (slider) => Math.max(1, Math.round(scale.to(slider))) });

const SLIDERS = {
  sites: whole(logarithmic(1, 10000, 2)),
  points: whole(logarithmic(1, 10000, 2)),
  level: linear,
  missing: linear,
  numbers: linear,
  faulty: linear,
  epsilon: logarithmic(0.05, 20, 2),
  bins: linear,
};

function moveSliders() {
  for (const [name, scale] of Object.entries(SLIDERS)) {
    const slider = $(`${name}-slider`);
    if (document.activeElement !== slider) slider.value = scale.from(Number($(name).value));
    slider.setAttribute("aria-valuetext", $(name).value);
  }
}

// -- reading the form -------------------------------------------------------------------------------------

const radios = (name) => [...document.querySelectorAll(`input[name="${name}"]`)];
const checked = (name) => document.querySelector(`input[name="${name}"]:checked`);
const chosen = (name) => checked(name).value;
const certainty = () => checked("criterion").closest("label").querySelector("input[type=number]");

function complain(input, sentence) {
  const field = input.closest(".field, .choices, .cases-line");
  let error = field.querySelector(".error");
  if (!error) {
    error = document.createElement("p");
    error.className = "error";
    error.id = `${input.id}-error`;
    error.setAttribute("aria-live", "polite");
    field.append(error);
  }
  error.textContent = sentence;
  error.hidden = !sentence;
  if (sentence) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-errormessage", error.id);
  } else {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-errormessage");
  }
  return !sentence;
}

class Refused extends Error {}

// A number of the form, inside the limits that its field has.
function number(id) {
  const input = $(id);
  const [low, high, value] = [input.min, input.max, input.value.trim() || NaN].map(Number);
  const whole = input.step === "1";
  const inside = value >= low && value <= high && (!whole || Number.isInteger(value));
  const limits = { low: low.toLocaleString("en"), high: high.toLocaleString("en") };
  if (!complain(input, inside ? "" : say(whole ? "whole" : "number", limits))) throw new Refused();
  return value;
}

// A pasted list: numbers alone, name=number, or rows of a table with a name and a number.

const MOST = 1000000;
const isSize = (text) => /^\d{1,7}$/.test(text) && Number(text) >= 1 && Number(text) <= MOST;
const hasThousands = (text) => /^\d{1,3}([,.'’\u00a0\u202f ]\d{3})+$/.test(text);

function cells(line, separator) {
  const found = [...line.matchAll(new RegExp(`(?:^|${separator})(?:"((?:[^"]|"")*)"|([^${separator}]*))`, "g"))];
  return found.map(([, quoted, plain]) => (quoted?.replaceAll('""', '"') ?? plain).trim());
}

function lastWord(line) {
  if (/\s\d{1,3}\s\d{3}$/.test(line)) throw new Refused(say("pair", brief(line)));
  return [line.replace(/\s+\S+$/, ""), line.split(/\s+/).at(-1)];
}

function rows(lines) {
  const separator = ["\t", ";", ","].find((each) => lines.some((line) => line.includes(each)));
  if (!separator) return lines.map(lastWord);
  const table = lines.map((line) => cells(line, separator));
  const head = table[0].map((cell) => cell.toLowerCase());
  const told = head.includes("site") && head.includes("n");
  const columns = told ? [head.indexOf("site"), head.indexOf("n")] : [0, 1];
  const long = table.findIndex((row) => row.slice(told ? head.length : 2).some(Boolean));
  if (long >= 0) throw new Refused(say("columns", brief(lines[long])));
  const begins = /\d/.test(table[0][columns[1]] ?? "0") ? 0 : 1; // a heading
  return table.slice(begins).map((row) => columns.map((column) => row[column] ?? ""));
}

function sizesByName(text) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (lines.length > 1 && lines.every(hasThousands)) throw new Refused(thousands(lines[0]));
  const plain = text.split(/[\s,;]+/).filter(Boolean);
  if (!lines.length) throw new Refused(say("empty"));
  const unclear = text.split(/[\s;]+|,(?=\s)/).find((part) => /^\d{1,3}(,\d{3})+$/.test(part));
  if (unclear && plain.every((part) => /^\d+$/.test(part))) throw new Refused(say("unclear", { text: unclear }));
  if (plain.every((part) => /^\d+$/.test(part)) || (!/[=\t"]/.test(text) && lines.length === 1)) return plain.map((part) => ["", part]);
  if (!text.includes("=")) return rows(lines);
  const pairs = lines.flatMap((line) => line.split(/[,;\t]/)).map((pair) => pair.trim()).filter(Boolean);
  return pairs.map((pair) => (pair.includes("=") ? [pair.slice(0, pair.lastIndexOf("=")).trim(), pair.slice(pair.lastIndexOf("=") + 1).trim()] : ["", pair]));
}

const thousands = (text) => say("thousands", { text });

function whatIsWrong(pairs) {
  const wrong = pairs.map(([, size]) => size).find((size) => !isSize(size));
  if (wrong !== undefined && hasThousands(wrong)) return thousands(wrong);
  if (/^\d+$/.test(wrong ?? "") && Number(wrong) > MOST) return say("most", { most: MOST.toLocaleString("en"), ...brief(wrong) });
  if (wrong !== undefined) return say("size", brief(wrong));
  const names = pairs.map(([name]) => name);
  if (new Set(names.map((name) => name !== "")).size > 1) return say("names");
  const twice = names.find((name, i) => name !== "" && names.indexOf(name) < i);
  return twice === undefined ? "" : say("twice", brief(twice));
}

function listed() {
  let sentence = "";
  let pairs = [];
  try {
    pairs = sizesByName($("list").value.normalize("NFC"));
    sentence = whatIsWrong(pairs);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    sentence = error.message;
  }
  const sites = `${pairs.length.toLocaleString("en")} ${pairs.length === 1 ? "site" : "sites"}`;
  const named = pairs[0]?.[0] ? ` with ${pairs.length === 1 ? "a name" : "names"}` : "";
  $("list-count").textContent = sentence ? "" : sites + named;
  if (!complain($("list"), sentence)) throw new Refused();
  const sizes = { points: pairs.map(([, size]) => Number(size)) };
  return named ? { ...sizes, names: pairs.map(([name]) => name) } : sizes;
}

const percent = (value) => Number((value / 100).toPrecision(12));

const isPrivate = () => checked("promise").dataset.privacy === "yes" && $("private").checked;
const sendsCounts = () => checked("promise").dataset.curve === "yes" && $("counts").checked && !isPrivate();
const hasLabels = () => $("score").selectedOptions[0].dataset.labels === "yes";
const FACTS = [...document.querySelectorAll("input[id^=fact-]")].map((input) => input.id);
const sendsSeveral = () => checked("promise").dataset.numbers === "yes" && !isPrivate() && !sendsCounts();

function grid() {
  const cells = { bins: number("bins"), low: number("low"), high: number("high") };
  if (!complain($("high"), cells.low < cells.high ? "" : say("range"))) throw new Refused();
  return cells;
}

function question() {
  const promise = checked("promise").dataset;
  const asked = { promise: chosen("promise"), criterion: chosen("criterion") };
  const list = chosen("spread") === "list";
  if (list) Object.assign(asked, listed());
  else Object.assign(asked, { sites: number("sites"), points: number("points") });
  const sites = list ? asked.points.length : asked.sites;
  if ($("score").value) asked.score = $("score").value;
  const classes = $("classes").value.split(",").map((name) => name.trim()).filter(Boolean);
  if (!complain($("classes"), hasLabels() && classes.length === 1 ? say("classes") : "")) throw new Refused();
  if (hasLabels() && classes.length) asked.classes = classes;
  const facts = FACTS.map((id) => [id.slice(5), $(id).value.trim()]).filter(([, text]) => text);
  if (facts.length) asked.facts = Object.fromEntries(facts);
  if (list && $("keys").value.trim()) asked.keys = $("keys").value;
  asked.confidence_level = percent(number("level"));
  if (certainty()) asked.delta = percent(100 - number(certainty().id));
  $("missing").max = $("missing-slider").max = $("bear").max = sites - 1;
  asked.missing = number("missing");
  $("faulty").max = $("faulty-slider").max = Math.max(0, Math.ceil((sites - asked.missing) / 2) - 1);
  for (const name of ["missing-slider", "faulty-slider"]) $(name).disabled = Number($(name).max) === 0;
  if (promise.faulty === "yes" && !isPrivate() && !sendsCounts()) asked.max_faulty = number("faulty");
  if ($("bear").value.trim() !== "") asked.max_missing = number("bear");
  else complain($("bear"), "");
  if (isPrivate()) {
    asked.privacy = { epsilon: number("epsilon"), ...grid() };
    if (promise.paper === "yes" && $("paper").checked) asked.privacy.analysis = "paper";
  }
  if (sendsCounts()) asked.curve = grid();
  if (sendsSeveral()) asked.numbers = number("numbers");
  return asked;
}

// -- a link holds the whole state -------------------------------------------------------------------------

const CHOICES = ["spread", "promise", "criterion"];
const BOXES = ["private", "counts", "paper"];
const FIELDS = [
  ...["sites", "points", "list", "keys", "score", "classes", "level", "missing", "bear", "faulty", "numbers", "epsilon", "bins", "low", "high", "coverage"],
  ...[...document.querySelectorAll("input[id^=certainty-]")].map((input) => input.id),
  ...FACTS,
];

function remember() {
  const state = new URLSearchParams();
  for (const name of CHOICES) state.set(name, chosen(name));
  for (const id of BOXES) if ($(id).checked) state.set(id, "yes");
  for (const id of FIELDS) state.set(id, $(id).value.trim());
  history.replaceState(null, "", `#${state}`);
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  if (location.hash && !location.hash.includes("=")) return; // a place on the page, not a state
  for (const id of FIELDS) if (state.has(id)) $(id).value = state.get(id);
  for (const name of CHOICES) choose(name, state.get(name));
  for (const id of BOXES) $(id).checked = state.get(id) === "yes";
  if (!state.has("numbers")) $("numbers").value = checked("promise").dataset.usual;
  promised = undefined;
}

// -- what goes together -----------------------------------------------------------------------------------

let promised; // the promise that was chosen when the form was last looked at

function choose(name, value) {
  const radio = radios(name).find((each) => each.value === value);
  if (radio) radio.checked = true;
}

function followPromise() {
  const promise = checked("promise");
  const fitting = promise.dataset.criteria.split(" ");
  const wasUsual = promised && promised !== promise && chosen("criterion") === promised.dataset.criterion;
  if (wasUsual || !fitting.includes(chosen("criterion"))) choose("criterion", promise.dataset.criterion);
  if (promised && promised !== promise && $("numbers").value === promised.dataset.usual) $("numbers").value = promise.dataset.usual;
  for (const radio of radios("criterion")) radio.closest("label").hidden = !fitting.includes(radio.value);
  $("privacy-fields").hidden = promise.dataset.privacy !== "yes";
  $("paper-choice").hidden = promise.dataset.paper !== "yes";
  $("needed").hidden = promise.dataset.law !== "yes";
  promised = promise;
}

// -- asking -----------------------------------------------------------------------------------------------

const asSentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

async function ask(path, body, signal) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) {
    const { error } = await response.json().catch(() => ({}));
    const named = error?.replace(/^names\.(\d+): /, (_, i) => `“${body.names[i].slice(0, 30)}”: `);
    throw new Refused(named ? asSentence(named) : say("status", { status: response.status }));
  }
  return response;
}

let changed = 0; // counts changes; an answer to an older one is shown only while a newer one is on its way
let asking = false;
let resting;
let searching = new AbortController();

function update() {
  changed += 1;
  $("plan").dataset.settled = "false";
  searching.abort();
  clearTimeout(resting);
  followPromise();
  showFields();
  remember();
  follow();
  resting = setTimeout(finish, REST);
}

// One question at a time while a slider moves, always for where it stands now.
async function follow() {
  if (asking) return;
  asking = true;
  for (let seen = 0; seen !== changed; ) {
    seen = changed;
    await show();
  }
  asking = false;
}

// What takes longer, as soon as nothing moves: the row with other numbers, the promises, the cases needed.
async function finish() {
  searching = new AbortController();
  const { signal } = searching;
  const now = changed;
  while (asking) await new Promise((done) => setTimeout(done, 10));
  if (now !== changed || signal.aborted) return;
  if (!$("problem").hidden) return ($("cases-answer").textContent = "");
  await Promise.all([show(signal, "yes"), showPromises(signal), answerCases(signal)]);
}

async function show(signal, compare = "no") {
  let asked;
  try {
    asked = question();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return refuse(say("field"));
  } finally {
    moveSliders();
  }
  const width = Math.max(280, Math.min(1200, Math.floor($("plan").clientWidth / 20) * 20));
  const patience = setTimeout(() => isBusy(true), 250);
  try {
    const response = await ask(`/api/plan?compare=${compare}&width=${width}`, asked, signal);
    render(await response.text(), asked);
    $("plan").dataset.settled = String(compare === "yes");
  } catch (error) {
    if (error.name === "AbortError") return;
    refuse(error instanceof Refused ? error.message : say("stopped"));
  } finally {
    clearTimeout(patience);
    isBusy(false);
  }
}

function isBusy(busy) {
  $("plan").setAttribute("aria-busy", String(busy));
  $("state").textContent = busy ? say("searching") : "";
}

function refuse(sentence) {
  const plan = $("plan");
  const before = plan.dataset.asked === undefined ? "" : ` ${say("before")}`;
  $("problem").textContent = sentence + before;
  $("problem").hidden = false;
  plan.classList.add("stale");
  $("result").classList.toggle("empty", before === "");
  plan.dataset.settled = "true";
  canTake(false);
  $("summary").textContent = "";
}

// -- showing ----------------------------------------------------------------------------------------------

function showFields() {
  const list = chosen("spread") === "list";
  $("sites-field").hidden = $("points-field").hidden = list;
  $("list-field").hidden = $("keys-field").hidden = !list;
  $("classes-field").hidden = !hasLabels();
  $("release-fields").hidden = !$("private").checked;
  $("counts-choice").hidden = checked("promise").dataset.curve !== "yes" || isPrivate();
  $("numbers-field").hidden = !sendsSeveral();
  $("numbers-fields").hidden = $("counts-choice").hidden && $("numbers-field").hidden;
  $("grid-fields").hidden = !isPrivate() && !sendsCounts();
  $("faulty-field").hidden = checked("promise").dataset.faulty !== "yes" || isPrivate() || sendsCounts(); // one site can claim every count
}

// An answer is made of elements that replace those of the page with the same id.
function render(answer, asked) {
  const { body } = new DOMParser().parseFromString(answer, "text/html");
  for (const part of [...body.children]) $(part.id).replaceWith(part);
  $("problem").hidden = true;
  $("plan").classList.remove("stale");
  $("result").classList.remove("empty");
  canTake(true);
  $("plan").dataset.asked = JSON.stringify(asked);
  if (!performance.getEntriesByName("first-plan").length) performance.mark("first-plan");
}

let compared = ""; // the sites and the level that the cards are for

async function showPromises(signal) {
  try {
    const { sites, points, score, confidence_level, delta, privacy } = question();
    const asked = { sites, points, score, confidence_level, delta, privacy };
    if (compared !== JSON.stringify(asked)) {
      const response = await ask("/api/promises", asked, signal);
      $("cards").innerHTML = await response.text();
      compared = JSON.stringify(asked);
    }
    markCard();
  } catch (error) {
    if (!(error instanceof Refused) && error.name !== "AbortError") throw error;
  }
}

function markCard() {
  for (const box of $("cards").querySelectorAll(".card")) {
    const ours = box.dataset.promise === chosen("promise");
    box.classList.toggle("chosen", ours);
    box.querySelector(".ours").hidden = !ours;
    box.querySelector("button").hidden = ours || box.classList.contains("impossible");
  }
}

async function answerCases(signal) {
  const output = $("cases-answer");
  if ($("needed").hidden) return;
  let asked, coverage;
  try {
    asked = question();
    coverage = percent(number("coverage"));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    output.textContent = "";
    return;
  }
  const patience = setTimeout(() => (output.textContent = say("searching")), 250);
  try {
    const response = await ask(`/api/cases?coverage=${coverage}`, asked, signal);
    output.textContent = await response.text();
  } catch (error) {
    if (error.name !== "AbortError") output.textContent = error.message;
  } finally {
    clearTimeout(patience);
  }
}

function canTake(able) {
  for (const button of document.querySelectorAll("#download, #save")) button.disabled = !able;
}

// A plan has no place for what is only tried: how many sites never answer.
async function take(path, then) {
  try {
    const { missing, ...asked } = question();
    await then(await ask(path, asked));
  } catch (error) {
    refuse(error.message || say("field"));
  }
}

async function download(response) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = "plan.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copy() {
  remember();
  try {
    await navigator.clipboard.writeText(location.href);
    $("copied").textContent = say("copied");
  } catch {
    $("copied").textContent = say("link");
  }
  setTimeout(() => ($("copied").textContent = ""), 3000);
}

// -- start ------------------------------------------------------------------------------------------------

for (const [name, scale] of Object.entries(SLIDERS)) {
  $(`${name}-slider`).addEventListener("input", (event) => {
    $(name).value = scale.to(event.target);
    if (name === "sites") {
      for (const [id, most] of [["missing", Number($("sites").value) - 1], ["faulty", Math.ceil(Number($("sites").value) / 2) - 1]])
        if (Number($(id).value) > most) $(id).value = Math.max(0, most);
    }
  });
}
$("controls").addEventListener("submit", (event) => event.preventDefault());
$("controls").addEventListener("input", update);
$("coverage").addEventListener("input", update);
$("score").addEventListener("change", update);
$("download").addEventListener("click", () => take("/api/document", download));
$("save")?.addEventListener("click", () => take("/api/save", () => location.assign("/")));
$("copy").addEventListener("click", copy);
$("cards").addEventListener("click", (event) => {
  if (event.target.tagName !== "BUTTON") return;
  choose("promise", event.target.closest(".card").dataset.promise);
  update();
});
addEventListener("hashchange", () => {
  recall();
  update();
});
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(update, 200);
});
recall();
moveSliders();
update();
