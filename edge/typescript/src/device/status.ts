/** Whether a device may report now, and if not, why. */
export type Status =
  | "ready"
  | "withdrawn"
  | "refused"
  | "not started"
  | "over"
  | "already reported"
  | "not its slot"
  | "budget spent"
  | "span epsilon"
  | "ever epsilon";
