/** A question as Python and as curl, to copy. */

import { address, path, questionWords } from "../api/client";
import type { Question } from "../api/types";

export function python(question: Question): string {
  const names = list(question.attributes);
  const options =
    (question.group ? `, group=${quoted(question.group)}` : "") +
    (question.given.length ? `, given=${list(question.given)}` : "");
  const ask = question.minus
    ? `difference(${names}, ${quoted(question.windows)}, ${quoted(question.minus)}${options})`
    : `ask(${names}, ${quoted(question.windows)}${options})`;
  return `from pathlib import Path
from calmstream import History, read_plan

plan = read_plan(Path("plan.json").read_bytes())
with History(plan, "localhost:9092") as history:
    answer = history.${ask}
print(answer.labels, answer.table, answer.stderr)`;
}

/** `base` ends with a slash. */
export function curl(base: string, plan: string, question: Question, token: boolean): string {
  const where = base + address(path(plan, "tables"), questionWords(question));
  return `curl ${token ? '-H "Authorization: Bearer $TOKEN" ' : ""}${shell(where)}`;
}

function list(names: readonly string[]): string {
  return `[${names.map(quoted).join(", ")}]`;
}

/** JSON's spelling of a string is also Python's. */
function quoted(text: string): string {
  return JSON.stringify(text);
}

function shell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
