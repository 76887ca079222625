/** Draws the newest tables: a bar for every estimate, its 95 % interval, and a mark for the true share. */

import type { Truth } from "./people.js";

export interface Newest {
  kind: "early" | "total" | null;
  window: number | null;
  reports: number;
  tables: { attributes: string[]; shares: number[]; stderr: number[] }[];
}

export interface Question {
  name: string;
  labels: readonly string[];
}

/** Standard errors on each side of a 95 % interval. */
const WIDTH = 1.96;

/** Return one section for each table of one or two questions. */
export function draw(newest: Newest, domain: readonly Question[], truth: Truth): HTMLElement[] {
  return newest.tables
    .filter(({ attributes }) => attributes.length <= 2)
    .map(({ attributes, shares, stderr }) => {
      const cells = combinations(attributes.map((name) => domain.find((each) => each.name === name)!.labels));
      const widest = Math.max(...shares.map((share, i) => share + WIDTH * stderr[i]!), 0.01);
      const section = document.createElement("section");
      const heading = document.createElement("h3");
      heading.textContent = attributes.join(" and ");
      const list = document.createElement("dl");
      cells.forEach((labels, i) => {
        const answers = Object.fromEntries(attributes.map((name, j) => [name, labels[j]!]));
        list.append(...bar(labels.join(", "), shares[i]!, stderr[i]!, truth.share(answers), widest));
      });
      section.append(heading, list);
      return section;
    });
}

/** All combinations of labels, the last question fastest. */
function combinations(labels: (readonly string[])[]): string[][] {
  return labels.reduce<string[][]>((rows, own) => rows.flatMap((row) => own.map((label) => [...row, label])), [[]]);
}

function bar(label: string, share: number, stderr: number, truth: number | null, widest: number): HTMLElement[] {
  const term = document.createElement("dt");
  term.textContent = label;
  const value = document.createElement("dd");
  const track = document.createElement("span");
  track.className = "track";
  const at = (place: number) => `${(100 * Math.min(Math.max(place, 0), widest)) / widest}%`;
  track.append(part("estimate", "0%", at(share)));
  const [low, high] = [Math.max(share - WIDTH * stderr, 0), share + WIDTH * stderr];
  const interval = part("interval", at(low), `calc(${at(high)} - ${at(low)})`);
  track.append(interval);
  if (truth !== null) track.append(part("truth", at(truth), "2px"));
  const text = document.createElement("span");
  text.className = "number";
  text.textContent = `${percent(share)} ± ${percent(WIDTH * stderr)}`;
  if (truth !== null) text.title = `made-up people: ${percent(truth)}`;
  value.append(track, text);
  return [term, value];
}

function part(name: string, left: string, width: string): HTMLElement {
  const made = document.createElement("span");
  made.className = name;
  // Set by script: the page's policy forbids style attributes in its text only.
  made.style.left = left;
  made.style.width = width;
  return made;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
