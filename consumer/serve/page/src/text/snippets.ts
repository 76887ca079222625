/** A question as Python and as curl, to copy: they ask the server that the page is from. */

import { address, path, questionWords } from "../api/client";
import type { Question } from "../api/types";

/** Needs nothing but Python; `base` ends with a slash. */
export function python(base: string, plan: string, question: Question, token: boolean): string {
  const where = JSON.stringify(base + address(path(plan, "tables"), questionWords(question)));
  const [modules, request] = token
    ? ["import json, os", `Request(${where}, headers={"Authorization": f"Bearer {os.environ['TOKEN']}"})`]
    : ["import json", where];
  return `${modules}
from urllib.request import ${token ? "Request, " : ""}urlopen

with urlopen(${request}) as reply:
    answer = json.load(reply)
for name in ("attributes", "labels", "table", "stderr"):
    print(name, answer[name])`;
}

/** `base` ends with a slash. */
export function curl(base: string, plan: string, question: Question, token: boolean): string {
  const where = base + address(path(plan, "tables"), questionWords(question));
  return `curl ${token ? '-H "Authorization: Bearer $TOKEN" ' : ""}${shell(where)}`;
}

function shell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
