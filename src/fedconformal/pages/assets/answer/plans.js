// @ts-check
// A plan, which somebody else wrote: its structure, its groups, and what the site's policy allows.

import { Float, expect, isLine, quoted, readJson, sha256, writeJson } from "./documents.js";
import { MESSAGES, SCORES, ratio } from "./messages.js";

export const COMMAND = "fedconformal report plan.json cases.csv --site NAME -o NAME.json";
const [MOST_CHARACTERS, MOST_ITEMS] = [24 * 2 ** 20, 750_000];

// -- structure: the published schema of plans, and what it cannot say --------------------------------------

/** @type {Record<string, (value: any, rule: any) => boolean>} */
const TYPES = {
  integer: (value) => Number.isInteger(value) || typeof value === "bigint",
  number: (value) => value instanceof Float,
  boolean: (value) => typeof value === "boolean",
  string: (value, rule) => isLine(value, rule.maxLength ?? 500),
  array: (value) => Array.isArray(value),
  object: (value) => Object.getPrototypeOf(Object(value)) === null,
};

/** Refuse a value that does not fit a rule of the schema.
 * @param {any} value @param {any} rule @param {any} schema @param {string} place */
function checkSchema(value, rule, schema, place) {
  // The page carries the schema; of JSON Schema it knows the rules that occur in there.
  const refusal = `this is not a plan that the page knows: ${place}`;
  if (rule.$ref) return checkSchema(value, schema.$defs[rule.$ref.split("/").pop()], schema, place);
  if (rule.oneOf) return checkSchema(value, schema.$defs[MESSAGES[value?.kind]?.schema] ?? { enum: [] }, schema, place);
  if (rule.anyOf) return checkSchema(value, rule.anyOf[0], schema, place); // the other one is null
  const size = rule.type === "array" ? value?.length : rule.type === "integer" ? value : 0;
  const [low, high] = [rule.minItems ?? rule.minimum ?? 0, rule.maxItems ?? rule.maximum ?? Infinity];
  const isAllowed = rule.enum?.includes(value) ?? (rule.const ?? value) === value;
  const isTyped = isAllowed && TYPES[rule.type ?? "string"](value, rule);
  const isFit = isTyped && (!rule.pattern || RegExp(rule.pattern).test(value));
  expect(isFit && size >= low && size <= high, `${refusal} is not what it should be`);
  if (rule.type === "array") value.forEach((each, i) => checkSchema(each, rule.items, schema, `${place}.${i}`));
  for (const name of rule.type === "object" ? Object.keys({ ...rule.properties, ...value }) : []) {
    expect(name in value || !rule.required?.includes(name), `${refusal} has no ${name}`);
    expect(Object.hasOwn(rule.properties ?? {}, name), `${refusal} has the unknown field ${quoted([name])}`);
    if (name in value) checkSchema(value[name], rule.properties[name], schema, `${place}.${name}`);
  }
}

/** Read a plan, and refuse one that is not whole or cannot be answered here.
 * @param {string} text @param {any} schema */
export async function readPlan(text, schema) {
  const isSmall = text.length <= MOST_CHARACTERS && text.replace(/[^,:[{]/g, "").length <= MOST_ITEMS;
  expect(isSmall, "this is too large for a plan");
  const plan = readJson(text);
  expect(plan?.format === "fedconformal/plan" && Array.isArray(plan.designs), "this is not a plan");
  // What the page does not support is named before the structure, with the command that does.
  const messages = plan.designs.map((design) => design?.message ?? {});
  const isPrivate = messages.some((message) => message.epsilon !== undefined);
  expect(!isPrivate, `private plans need a ledger: use ${COMMAND} --ledger LEDGER --dataset DATASET`);
  const isOther = messages.some(({ kind, parts, starts }) => kind === "cases" || parts || starts);
  expect(!isOther, `the page sums up no losses and draws no random cases: use ${COMMAND}`);
  expect(!("keys" in plan), `this plan asks for a signed report: use ${COMMAND} --sign-with NAME.key`);
  const isKnown = plan.score === undefined || Object.hasOwn(SCORES, plan.score?.name);
  expect(isKnown, `the page cannot compute the score of this plan: use ${COMMAND} --target TRUTH --prediction COLUMNS`);
  checkSchema(plan, schema, schema, "plan");
  // The digest is of the content without its seals.
  const { digest, signature, signer, ...content } = plan;
  const isWhole = digest === `sha256:${await sha256(writeJson(content, "canonical"))}`;
  expect(isWhole, "this plan does not match its digest: it was changed after it was made, or cut short");
  plan.designs.forEach(checkDesign);
  checkGroups(plan);
  return checkCurrent(plan);
}

/** Refuse a plan that has expired. @param {any} plan */
export function checkCurrent(plan) {
  const { expires } = plan.terms ?? {};
  const isTime = !expires || new Date(Date.parse(expires) || 0).toISOString() === expires.replace("Z", ".000Z");
  expect(isTime, "this is not a plan: its expiry is no time");
  expect(!expires || Date.now() < Date.parse(expires), `the plan expired at ${expires} and can no longer be answered`);
  return plan;
}

/** Return the names of all sites of a design, where it names them.
 * @param {any} design @returns {string[] | undefined} */
export const siteNames = ({ sites, names }) => (sites?.[0]?.names ? sites.flatMap((kind) => kind.names ?? []) : names);

/** Return whether no value occurs twice. @param {any[]} values */
export const isDifferent = (values) => new Set(values).size === values.length;

/** Refuse a design whose ranks are not those of its sites and levels. @param {any} design */
function checkDesign({ sites, names: own, message, levels }) {
  // Ranks rise, and the last one possible, n + 1, stands for no score at all.
  const isOwn = (ranks, i) => ranks.every((rank, j) => rank <= sites[i].n + 1 && (j === 0 || ranks[j - 1] < rank));
  const hasRanks = ({ ranks = [] }) => ranks.length === sites.length && ranks.every(isOwn);
  const hasRule = ({ rule, ranks }, i) => !ranks && rule?.share === levels[i].confidence_level && !rule.spacing === !rule.numbers;
  const isOpen = !sites && message.levels?.some((level) => level.rule?.eta !== undefined);
  expect(!isOpen, `the page does not compute the ranks of this plan: use ${COMMAND}`);
  const [names, edges] = [siteNames({ sites, names: own }) ?? [], message.edges ?? []];
  const fitting = [
    isDifferent(names) && isDifferent(levels.map((level) => level.confidence_level)),
    levels.every(({ confidence_level: level }) => ratio(level)[0] > 0 && ratio(level)[0] < ratio(level)[1]),
    levels.every(({ votes }) => (votes === undefined) === !sites) &&
      edges.every((edge, i) => !i || edges[i - 1].value < edge.value),
    !sites || sites.every(({ names, count }) => (names?.length ?? count) === count && !names === !sites[0].names),
    !message.levels || (message.levels.length === levels.length && message.levels.every(sites ? hasRanks : hasRule)),
  ];
  expect(fitting.every(Boolean), "this is not a plan: its sites, levels and ranks do not fit together");
}

/** Return how a plan makes groups: by site, by a label of each case, which may be its class. @param {any} plan */
export function grouping({ group_by: by, designs }) {
  const [bySite, byClass] = [Boolean(by?.includes("site")), Boolean(by?.includes("class"))];
  const hasLabels = designs[0].group !== undefined && String(by) !== "site";
  const siteOf = (design) => (bySite ? siteNames(design)?.[0] : undefined);
  const labelOf = (design) => (bySite ? design.group?.slice(`${siteOf(design)}: `.length) : design.group);
  return { bySite, byClass, hasLabels, siteOf, labelOf };
}

/** Refuse groups that are not made of what the plan says. @param {any} plan */
function checkGroups(plan) {
  const { designs, classes, group_by: by } = plan;
  const { bySite, byClass, hasLabels, siteOf, labelOf } = grouping(plan);
  // A design of one site is named after it, and after the label if there are labels.
  const isNamed = (design) => design.group === siteOf(design) + (hasLabels ? `: ${labelOf(design)}` : "");
  const fitting = [
    isDifferent(designs.map(({ group }) => group)) && new Set(designs.map(({ message }) => message.kind)).size === 1,
    designs.every(({ group }) => group !== undefined) || (designs.length === 1 && !by),
    !by || ["class", "site", "site,class", "site,label"].includes(String(by)),
    !bySite || designs.every((design) => siteNames(design)?.length === 1 && isNamed(design)),
    !byClass || designs.every((design) => classes?.includes(labelOf(design))),
  ];
  expect(fitting.every(Boolean), "this is not a plan: its groups do not fit together");
}

// -- the site's policy -------------------------------------------------------------------------------------

const SETTINGS = [
  ["max_numbers|max_answers|max_disclosed|round_down_to", "0|[1-9][0-9]{0,14}"],
  ["min_group", "[1-9][0-9]{0,14}"],
  ["max_epsilon", "(?=.*[1-9])(?:0|[1-9][0-9]{0,4})(?:\\.[0-9]{1,9})?"],
  ["private_only|report_seal", "true|false"],
  ["curves", '"private"|"plain"'],
  ["scores|promises|messages", '\\[\\s*(?:"[^"\\\\]*"\\s*(?:,\\s*"[^"\\\\]*"\\s*)*)?\\]'],
  ["revoked", "\\[\\s*\\]"],
].map(([names, values]) => new RegExp(`^\\s*(${names})\\s*=\\s*(${values})\\s*(?:#.*)?$`));

/** Read a policy that has no other lines than those that `fedconformal policy new` writes. @param {string} text */
export function readPolicy(text) {
  const policy = Object.create(null);
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(#.*|secret\s*=\s*"[^"\\]*"\s*)?$/.test(line)) continue; // a secret is for scores that draw
    const [, name, value] = SETTINGS.map((pattern) => pattern.exec(line)).find(Boolean) ?? [];
    expect(name && !(name in policy), `the page cannot follow line ${i + 1} of the policy: use ${COMMAND} --policy site.toml`);
    policy[name] = JSON.parse(value);
  }
  return policy;
}

/** Refuse a plan that the policy does not allow. @param {any} policy @param {any} plan */
export function checkPolicy(policy, plan) {
  expect(policy, "the page cannot follow the site's policy, so nothing leaves");
  expect(!policy.private_only, "exact numbers would leave, and your policy says private_only = true: nothing leaves");
  for (const design of plan.designs) {
    const used = { scores: plan.score?.name, promises: design.promise, messages: design.message.kind };
    for (const [field, name] of Object.entries(used)) {
      const isAllowed = !policy[field] || policy[field].includes(name);
      const refusal = `this plan has ${field} = '${name ?? "none"}', and the site's policy allows`;
      expect(isAllowed, `${refusal} ${quoted(policy[field] ?? [])} alone`);
    }
  }
  const isPlain = policy.curves === "plain" || !plan.designs.some((design) => MESSAGES[design.message.kind].addsUp);
  expect(isPlain, 'exact counts of all scores would leave, which only a policy with curves = "plain" allows');
}
