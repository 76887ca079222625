/** What an application allows plans to ask of its device. No plan, server or operator changes it. */

import { above, decimal, subtract, sum, type Decimal } from "../decimal.js";
import { InvalidInput } from "../errors.js";

const MAX_ROOTS = 64;
const MAX_SPAN_DAYS = 36_500;
const AMOUNT = /^(0|[1-9][0-9]{0,8})(\.[0-9]{1,20})?$/;
const KEY = /^[0-9a-f]{64}$/;

/** What one root may spend, and nobody else; taken out of the policy's own limits. */
export interface Allotment {
  readonly span_epsilon: string;
  readonly ever_epsilon: string | null;
}

/** The limits that a device keeps, whatever plans it is given: docs/signed-plans.md. */
export interface Policy {
  readonly roots: readonly string[];
  readonly report_epsilon: string;
  readonly span_epsilon: string;
  readonly span_days: number;
  readonly ever_epsilon: string | null;
  readonly purposes: readonly string[] | null;
  readonly allotments: Readonly<Record<string, Allotment>>;
}

/** What one root can spend from. */
export interface Limits {
  counts(root: string): boolean;
  span: Decimal;
  ever: Decimal | null;
}

const STRICT: Policy = {
  roots: [],
  report_epsilon: "4",
  span_epsilon: "8",
  span_days: 365,
  ever_epsilon: null,
  purposes: null,
  allotments: {},
};

/** What an application states of a policy; the rest has the strict defaults. */
export type PolicyInput = Partial<Omit<Policy, "allotments">> & {
  readonly allotments?: Readonly<Record<string, { readonly span_epsilon: string; readonly ever_epsilon?: string | null }>>;
};

/** Return a checked policy; throws InvalidInput with one line. */
export function policyOf(input: PolicyInput = {}): Policy {
  for (const name of Object.keys(input)) {
    if (!Object.hasOwn(STRICT, name)) throw new InvalidInput(`policy: unknown field ${name}`);
  }
  const given = { ...STRICT, ...input };
  const list = (values: unknown, name: string) => {
    if (!Array.isArray(values) || !values.every((value) => typeof value === "string")) {
      throw new InvalidInput(`policy.${name}: expected a list of texts`);
    }
    return [...new Set(values as string[])].sort();
  };
  const allotments = Object.entries(given.allotments).map(([root, each]) => [
    root,
    { span_epsilon: each.span_epsilon, ever_epsilon: each.ever_epsilon ?? null },
  ]);
  const policy: Policy = {
    ...given,
    roots: list(given.roots, "roots"),
    purposes: given.purposes === null ? null : list(given.purposes, "purposes"),
    allotments: Object.fromEntries(allotments.sort(([a], [b]) => (a! < b! ? -1 : 1))) as Policy["allotments"],
  };
  check(policy);
  return policy;
}

function amount(text: unknown, name: string): Decimal {
  if (typeof text !== "string" || !AMOUNT.test(text)) {
    throw new InvalidInput(`policy.${name}: expected a decimal number in a string such as "8"`);
  }
  return decimal(text);
}

function check(policy: Policy): void {
  if (policy.roots.length > MAX_ROOTS || !policy.roots.every((root) => KEY.test(root))) {
    throw new InvalidInput(`policy.roots: expected at most ${MAX_ROOTS} keys of 64 hexadecimal digits`);
  }
  const days = policy.span_days;
  if (!Number.isInteger(days) || days < 1 || days > MAX_SPAN_DAYS) {
    throw new InvalidInput(`policy.span_days: expected 1 to ${MAX_SPAN_DAYS}`);
  }
  if (!Object.keys(policy.allotments).every((root) => policy.roots.includes(root))) {
    throw new InvalidInput("policy.allotments: expected allotments of trusted roots only");
  }
  amount(policy.report_epsilon, "report_epsilon");
  const allotments = Object.values(policy.allotments);
  const spans = sum(allotments.map((each) => amount(each.span_epsilon, "allotments")));
  if (above(spans, amount(policy.span_epsilon, "span_epsilon"))) {
    throw new InvalidInput("policy: the allotments' span_epsilon sum to more than span_epsilon");
  }
  const given = allotments.map((each) => each.ever_epsilon).filter((each) => each !== null);
  const evers = sum(given.map((each) => amount(each, "allotments")));
  if (policy.ever_epsilon === null) return;
  const ever = amount(policy.ever_epsilon, "ever_epsilon");
  if (given.length < allotments.length) {
    throw new InvalidInput("policy: every allotment needs an ever_epsilon, as the policy has one");
  }
  if (above(evers, ever)) throw new InvalidInput("policy: the allotments' ever_epsilon sum to more than ever_epsilon");
}

/** Length of a span in seconds. */
export function spanSeconds(policy: Policy): number {
  return policy.span_days * 86_400;
}

/** The limits over everything. */
export function overall(policy: Policy): Limits {
  const ever = policy.ever_epsilon === null ? null : decimal(policy.ever_epsilon);
  return { counts: () => true, span: decimal(policy.span_epsilon), ever };
}

/** What a root can spend from; empty for unsigned plans. */
export function limitsOf(policy: Policy, root: string): Limits {
  if (Object.hasOwn(policy.allotments, root)) {
    const own = policy.allotments[root]!;
    const ever = own.ever_epsilon === null ? null : decimal(own.ever_epsilon);
    return { counts: (other) => other === root, span: decimal(own.span_epsilon), ever };
  }
  const taken = Object.values(policy.allotments);
  const left = (whole: string, parts: (string | null)[]) =>
    subtract(decimal(whole), sum(parts.filter((part) => part !== null).map(decimal)));
  return {
    counts: (other) => !Object.hasOwn(policy.allotments, other),
    span: left(policy.span_epsilon, taken.map((each) => each.span_epsilon)),
    ever: policy.ever_epsilon === null ? null : left(policy.ever_epsilon, taken.map((each) => each.ever_epsilon)),
  };
}

/** Whether two policies say the same. */
export function samePolicy(a: Policy, b: Policy): boolean {
  const ordered = (policy: Policy) =>
    JSON.stringify(Object.entries(policy).sort(([x], [y]) => (x < y ? -1 : 1)));
  return ordered(a) === ordered(b);
}
