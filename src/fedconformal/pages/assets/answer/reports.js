// @ts-check
// The report of a site: what the plan asks of it, as far as its policy allows, with the meaning of every number.

import { count, expect, isSiteName, quoted, sha256, writeJson } from "./documents.js";
import { MESSAGES, SCORES } from "./messages.js";
import { COMMAND, checkCurrent, checkPolicy, grouping, siteNames } from "./plans.js";

const [LONGEST, LONGEST_INDENTED, EXAMPLE] = [2 ** 20, 2 ** 16, 100];

/** Return the place of the site among the kinds of a design, by its name or else its size; null while sizes are open.
 * @param {any} design @param {number} n @param {string} site @returns {number | null} */
export function findKind(design, n, site) {
  // Sites that the plan names are found by name, others by their number of cases.
  const known = siteNames(design);
  expect(!known || known.includes(site), `site must be one of the plan's, ${quoted(known ?? [])}, got '${site}'`);
  if (!design.sites) return null;
  const place = design.sites.findIndex((kind) => (known ? kind.names.includes(site) : kind.n === n));
  const sizes = [...new Set(design.sites.map((kind) => kind.n))].sort((a, b) => a - b).map(String);
  expect(place >= 0, `the plan expects sites with ${sizes.slice(0, 8).join(", ")}${sizes[8] ? ", ..." : ""} scores, got ${n}`);
  const [expected, got] = [design.sites[place].n, n.toLocaleString("en-US")];
  expect(expected === n, `the plan expects ${count(expected, "score")} from site '${site}', got ${got}`);
  return place;
}

/** Describe what a plan asks for before any case is read. @param {any} plan @param {string} site */
export function preview(plan, site) {
  const design = plan.designs.find((each) => siteNames(each)?.includes(site)) ?? plan.designs[0];
  const place = design.sites?.findIndex((kind) => kind.names?.includes(site) ?? true) ?? null;
  const isClear = siteNames(design) || !design.sites || new Set(design.sites.map((kind) => kind.n)).size === 1;
  const more = plan.designs.length > 1 ? " Other groups of cases may differ; the last step shows each." : "";
  if (!isClear || place < 0) return `That depends on the name of your site, or on how many cases you have.${more}`;
  if (design.sites?.[place].asked === false) return `Nothing: no answer of your site could change the threshold.${more}`;
  const what = MESSAGES[design.message.kind].describe(design, design.sites?.[place].n ?? EXAMPLE, place);
  return `${design.sites ? "" : `With ${EXAMPLE} cases, for example, `}${what}, and their number.${more}`;
}

/** Return the scores of each design that the site has cases for.
 * @param {any} plan @param {string} site @param {Float64Array} scores @param {string[] | null} labels */
function splitByGroup(plan, site, scores, labels) {
  const { bySite, byClass, hasLabels, siteOf, labelOf } = grouping(plan);
  const sites = [...new Set(plan.designs.map((design) => siteOf(design) ?? ""))];
  const own = plan.designs.filter((design) => siteOf(design) === (bySite ? site : undefined));
  expect(own.length, `site must be one of the plan's, ${quoted(sites)}, got '${site}'`);
  if (!hasLabels || !labels) return [{ design: own[0], values: scores }];
  const known = new Set(plan.designs.map(labelOf));
  const unknown = labels.filter((label) => !known.has(label));
  const rows = `${quoted([...new Set(unknown)].sort())} in ${unknown.length} of ${count(scores.length, "row")}`;
  const what = byClass ? "classes" : "groups";
  expect(!unknown.length, `groups must be ${what} of the plan, got ${rows}: correct these, or leave them out`);
  const held = new Map(own.map((design) => [labelOf(design), { design, values: [] }]));
  labels.forEach((label, row) => held.get(label)?.values.push(scores[row]));
  return [...held.values()].filter(({ values }) => values.length);
}

/** Prepare the report: a sentence for the data owner, every number with its meaning, and the text of the file.
 * @param {any} plan @param {any} policy The site's. @param {string} site @param {Float64Array} scores
 * @param {string[] | null} labels Of the cases, where the plan has groups. @param {boolean} isScored By the page. */
export async function prepare(plan, policy, site, scores, labels, isScored) {
  checkPolicy(policy, checkCurrent(plan));
  expect(isSiteName(site), "a name must be visible, of 1 to 200 characters in one line, without spaces around it");
  expect(!scores.includes(-Infinity), `scores must not be -Infinity; case ${scores.indexOf(-Infinity) + 1} is`);
  const [isGrouped, fewest] = [plan.designs[0].group !== undefined, policy.min_group ?? 5];
  // Groups that are too small are left out; of the others, those that the plan asks this site for are sent.
  const held = splitByGroup(plan, site, scores, labels);
  const enough = held.filter(({ values }) => !isGrouped || values.length >= fewest);
  expect(enough.length, `nothing is sent: this site has fewer than ${fewest} cases of every group`);
  const named = plan.designs.map(siteNames);
  const isNamed = !named.includes(undefined) && named.some((names) => names.includes(site));
  const sent = [];
  for (const { design, values } of enough) {
    if (isGrouped && isNamed && !siteNames(design)?.includes(site)) continue;
    const [message, place] = [MESSAGES[design.message.kind], findKind(design, values.length, site)];
    const isAsked = place === null || design.sites[place].asked !== false;
    const numbers = isAsked ? message.countNumbers(design, values.length, place) : 0;
    if (numbers > 0) sent.push({ design, values, message, place, numbers });
  }
  expect(sent.length, `the plan does not ask site '${site}': no answer of it could change the threshold`);
  // The policy limits how many exact scores leave; a curve of counts has a rule of its own.
  const exact = sent.reduce((sum, { message, numbers }) => sum + (message.addsUp ? 0 : numbers), 0);
  const n = sent.reduce((sum, { values }) => sum + values.length, 0);
  const most = policy.max_numbers ?? Math.min(100, Math.max(10, Math.floor(n / 20)));
  const allowed = `and the site's policy allows ${most}: max_numbers = ${exact} would allow it`;
  expect(exact <= most, `${exact.toLocaleString("en-US")} of your ${count(n, "score")} would leave, ${allowed}`);
  const tells = (value) => SCORES[plan.score?.name]?.tells(value, plan.terms?.facts?.unit) ?? "it is the score of one case";
  const [parts, meanings] = [/** @type {any[]} */ ([]), /** @type {any[]} */ ([])];
  for (const { design, values, message, place } of sent) {
    const payload = message.answer(design, Float64Array.from(values).sort(), place, policy.round_down_to ?? 0);
    parts.push({ ...(isGrouped && { group: design.group }), n: values.length, payload });
    meanings.push([values.length, `How many cases you have${isGrouped ? ` in group ${quoted([design.group])}` : ""}.`]);
    meanings.push(...message.explain(design, payload, values.length, tells, policy.round_down_to ?? 0));
  }
  // The fields, their order and the digest are those of Python, down to the byte.
  const score = isScored && { score: { name: plan.score.name } };
  const report = { format: "fedconformal/report", version: 1, plan: plan.digest, site, parts, ...score };
  const whole = { ...report, digest: `sha256:${await sha256(writeJson(report, "canonical"))}` };
  const text = writeJson(whole, "line");
  expect(text.length <= LONGEST, `this report is too large for the page: use ${COMMAND}`);
  const small = held.filter((part) => !enough.includes(part)).map(({ design }) => design.group);
  const leftOut = scores.length - held.reduce((sum, { values }) => sum + values.length, 0);
  const sentence = describe(sent, small, leftOut, policy);
  return { sentence, meanings, text: `${[...text].length > LONGEST_INDENTED ? text : writeJson(whole, "indented")}\n` };
}

/** Describe what leaves in the words of the command.
 * @param {any[]} sent @param {any[]} held @param {number} leftOut @param {any} policy */
function describe(sent, held, leftOut, policy) {
  const cut = policy.round_down_to > 1 ? ` (0 for fewer than ${policy.round_down_to})` : "";
  const groups = sent.map(({ design, values, message, place }) => {
    const what = message.describe(design, values.length, place) + (message.addsUp ? cut : "");
    return design.group === undefined ? what : `${quoted([design.group])}: ${what}`;
  });
  const listed = groups.slice(0, 5).join("; ") + (groups.length > 5 ? "; ..." : "");
  const sizes = `the sizes of ${count(sent.length, "group")}, and for ${listed}`;
  const asked = sent[0].design.group === undefined ? `${listed}, and for their number` : sizes;
  const notes = held.length ? ` Nothing is sent for ${quoted(held)}: you have too few of these cases.` : "";
  const others = leftOut ? ` ${count(leftOut, "case")} left out: the plan has no such label.` : "";
  return `This plan asks for ${asked}.${notes}${others}`;
}
