/** How a device's state is written: one JSON document with a checksum. */

import { hex, sha256, utf8 } from "../bytes.js";
import { StoreError } from "../errors.js";
import { fresh } from "../random.js";
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
    history: [],
    waiting: [],
    generation: 0,
  };
}

/** The state as text: the checksum, a line end, and the document it is over. */
export async function encodeState(state: DeviceState): Promise<string> {
  const document = JSON.stringify({ format: FORMAT, ...state });
  return `${hex(await sha256(utf8(document)))}\n${document}`;
}

/** Inverse of `encodeState`; throws a StoreError that says nothing of the content. */
export async function decodeState(text: string): Promise<DeviceState> {
  const document = text.slice(65);
  if (text[64] !== "\n" || hex(await sha256(utf8(document))) !== text.slice(0, 64)) {
    throw new StoreError("the device's state is damaged: its checksum does not match");
  }
  const { format, ...state } = JSON.parse(document) as DeviceState & { format: string };
  if (format !== FORMAT) throw new StoreError(`the device's state has the format ${format}, expected ${FORMAT}`);
  if (state.policy) policyOf(state.policy);
  return state;
}
