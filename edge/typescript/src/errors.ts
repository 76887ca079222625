/** The errors of this package. Messages are one line and never hold a record. */

/** A document that is not a plan a device reads; the message says where and why. */
export class PlanError extends Error {
  override name = "PlanError";
}

/** Why a device does not accept a plan: a closed list, the same in every language. */
export type Refusal =
  | "malformed"
  | "unsigned"
  | "bad_certificate"
  | "unknown_root"
  | "bad_signature"
  | "unreadable_plan"
  | "wrong_lineage"
  | "expired_certificate"
  | "purpose"
  | "report_epsilon";

/** A device does not accept a plan; its ledger stays as it was. */
export class PlanRefused extends PlanError {
  override name = "PlanRefused";

  constructor(
    readonly reason: Refusal,
    readonly detail: string,
  ) {
    super(`plan refused (${reason}): ${detail}`);
  }
}

/** An argument of the application is not what is expected. */
export class InvalidInput extends Error {
  override name = "InvalidInput";
}

/**
 * The store cannot be read or written, or cannot promise durability; nothing was reported.
 *
 * The application goes on without reports. A store that stays damaged is repaired by nothing: this device reports no
 * more. A store that is deleted whole is a new device, which forgets what was spent and that the person withdrew.
 */
export class StoreError extends Error {
  override name = "StoreError";
}

/** The gateway does not answer, or not as a gateway does; try again another time. */
export class GatewayError extends Error {
  override name = "GatewayError";
}

/** The browser or runtime lacks something that this package needs; `Reporter.open` and `Recorder.open` throw it. */
export class UnsupportedError extends Error {
  override name = "UnsupportedError";
}
