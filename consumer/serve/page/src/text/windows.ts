import type { Final, Plan } from "../api/types";

/** The windows whose tables can be shown. */
export function withReports(finals: readonly Final[]): Final[] {
  return finals.filter((final) => final.reports > 0);
}

/** Whether no window of a plan is to come: the last one is over and was published, or should have been. */
export function ended({ windows }: Plan, newest: number | null, now = Date.now() / 1000): boolean {
  if (windows.last_end === null) return false;
  const last = Math.round((windows.last_end - windows.first_start) / windows.seconds) - 1;
  return (newest !== null && newest >= last) || now > windows.last_end + windows.grace + windows.seconds;
}
