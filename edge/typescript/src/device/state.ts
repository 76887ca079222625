/** How a device's state is written: one JSON document with a checksum. */

import { hex, sha256, utf8 } from "../bytes.js";
import { StoreError } from "../errors.js";
import { fresh } from "../random.js";
import type { Documents } from "./events.js";
import type { DeviceState } from "./ledger.js";
import { policyOf } from "./policy.js";
import { NOTHING } from "./totals.js";

const FORMAT = "calmstream-edge-1";

/** The state of a new device, with a secret of its own. */
export function newDevice(): DeviceState {
  return {
    secret: hex(fresh(16)),
    lineages: {},
    signed: {},
    totals: NOTHING,
    policy: null,
    withdrawn: false,
    withdrawals: 0,
    history: [],
    waiting: [],
    generation: 0,
  };
}

/** A document as text: the checksum, a line end, and the document it is over. */
export async function sealed(content: object): Promise<string> {
  const document = JSON.stringify({ format: FORMAT, ...content });
  return `${hex(await sha256(utf8(document)))}\n${document}`;
}

/** Inverse of `sealed`; throws a StoreError that says nothing of the content. */
export async function unsealed(text: string, what: string): Promise<object> {
  const document = text.slice(65);
  if (text[64] !== "\n" || hex(await sha256(utf8(document))) !== text.slice(0, 64)) {
    throw new StoreError(`${what} is damaged: its checksum does not match`);
  }
  const { format, ...content } = JSON.parse(document) as { format: string };
  if (format !== FORMAT) throw new StoreError(`${what} has the format ${format}, expected ${FORMAT}`);
  return content;
}

/** The state in the output of `sealed`. */
export async function decodeState(text: string): Promise<DeviceState> {
  const state = (await unsealed(text, "the device's state")) as DeviceState;
  if (state.policy) policyOf(state.policy);
  return state;
}

/** What recorders keep, in the output of `sealed`; nothing where there is none. */
export async function decodeEvents(text: string | undefined): Promise<Documents> {
  return text === undefined ? {} : ((await unsealed(text, "what was recorded")) as Documents);
}
