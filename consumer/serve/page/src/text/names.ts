const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** A name or label as people see it: blank ones named, characters that mislead the eye replaced. */
export function visible(name: string): string {
  if (name === "") return "(empty)";
  return name.trim() === "" ? "(blank)" : name.replace(INVISIBLE, "\ufffd");
}

/** Lists of names in addresses. A comma or backslash of a name has a backslash before it. */

export function joined(names: readonly string[]): string {
  return names.map((name) => name.replace(/[\\,]/g, "\\$&")).join(",");
}

export function separated(text: string): string[] {
  const found: string[] = [];
  let name = "";
  for (let i = 0; i < text.length; i += 1) {
    if (text[i] === "\\" && i + 1 < text.length) name += text[(i += 1)];
    else if (text[i] === ",") {
      found.push(name);
      name = "";
    } else name += text[i];
  }
  return [...new Set([...found, name])].filter((one) => one !== "");
}
