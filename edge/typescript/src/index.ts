/** Reports of one device under local differential privacy. See README.md. */

export { GatewayError, InvalidInput, PlanError, PlanRefused, StoreError, UnsupportedError, type Refusal } from "./errors.js";
export { history, rejoin, setPolicy, withdraw } from "./device/control.js";
export type { Sent } from "./device/history.js";
export type { DeviceState } from "./device/ledger.js";
export { newDevice } from "./device/state.js";
export type { DeviceRecord } from "./device/perturb.js";
export type { Policy, PolicyInput } from "./device/policy.js";
export type { Documents } from "./device/events.js";
export { Recorder } from "./device/recorder.js";
export type { Report } from "./device/report.js";
export { Reporter, type ReporterOptions } from "./device/reporter.js";
export type { Status } from "./device/status.js";
export type { Plan } from "./plan/model.js";
export { readPlan } from "./plan/plan.js";
export { GivenSource, type Source } from "./random.js";
export { Gateway, type GatewayOptions, type Listed } from "./send/gateway.js";
export { Sender, type Delivery, type SenderOptions } from "./send/sender.js";
export { IndexedDbStore } from "./stores/indexed_db.js";
export { MemoryStore, type Change, type Store } from "./stores/store.js";
