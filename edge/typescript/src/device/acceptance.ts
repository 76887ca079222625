/** Which plans a device accepts; the checks and their order stand in docs/signed-plans.md. */

import { hex, type Bytes } from "../bytes.js";
import { above, decimal } from "../decimal.js";
import { PlanError, PlanRefused } from "../errors.js";
import type { Plan } from "../plan/model.js";
import { readAny, readPlan } from "../plan/plan.js";
import { readEnvelope, signedLineage, validAt, verify, type Statement } from "../signed/envelope.js";
import type { Policy } from "./policy.js";

/** A plan with what is known of its origin. */
export interface AcceptedPlan {
  readonly plan: Plan;
  /** Of the certificate; null for an unsigned plan. */
  readonly statement: Statement | null;
  /** Root key that vouches for the plan; empty for an unsigned one. */
  readonly root: string;
  /** Who answers for the plan. */
  readonly owner: string;
}

/** Read an envelope; or, where unsigned plans are allowed, a plan. Throws PlanRefused or PlanError. */
export async function readAccepted(raw: Bytes, roots: readonly string[], allowUnsigned: boolean): Promise<AcceptedPlan> {
  const envelope = readEnvelope(raw);
  if (envelope) {
    const statement = await verify(envelope, roots);
    const plan = await signedPlan(envelope.plan);
    if (plan.lineage !== hex(await signedLineage(statement.root, plan.lineageName))) {
      throw new PlanRefused("wrong_lineage", "lineage does not follow from the root and lineage_name");
    }
    return { plan, statement, root: statement.root, owner: statement.owner };
  }
  try {
    await readAny(raw);
  } catch (error) {
    throw error instanceof PlanError ? new PlanRefused("malformed", `neither an envelope nor a plan: ${error.message}`) : error;
  }
  if (!allowUnsigned) throw new PlanRefused("unsigned", "sign it; demonstrations and tests say allowUnsigned: true");
  const plan = await readPlan(raw);
  return { plan, statement: null, root: "", owner: plan.owner };
}

async function signedPlan(raw: Bytes): Promise<Plan> {
  try {
    const { plan, canonical } = await readAny(raw);
    if (!plan.lineageName) throw new PlanError("a signed plan states lineage_name");
    if (!canonical) throw new PlanError("the plan is not in its canonical form");
    return plan;
  } catch (error) {
    throw error instanceof PlanError ? new PlanRefused("unreadable_plan", error.message) : error;
  }
}

/** Why a plan that was read is not accepted now; null where it is. `present` is in seconds. */
export function standing({ plan, statement }: AcceptedPlan, policy: Policy, present: number): PlanRefused | null {
  if (statement && !policy.roots.includes(statement.root)) {
    return new PlanRefused("unknown_root", "the policy does not name the plan's root");
  }
  if (statement && !(validAt(statement, plan.start) && validAt(statement, present))) {
    const { notBefore, notAfter } = statement;
    const detail = `the certificate is valid from ${notBefore} to ${notAfter}; the plan starts at ${plan.start}, now is ${present}`;
    return new PlanRefused("expired_certificate", detail);
  }
  if (policy.purposes !== null && !policy.purposes.includes(plan.purpose)) {
    return new PlanRefused("purpose", "the policy does not list the plan's purpose");
  }
  if (above(decimal(plan.epsilon), decimal(policy.report_epsilon))) {
    const detail = `a report costs epsilon ${plan.epsilon}; the policy allows ${policy.report_epsilon}`;
    return new PlanRefused("report_epsilon", detail);
  }
  return null;
}
