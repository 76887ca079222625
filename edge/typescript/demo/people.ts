/** Made-up people with answers to the demo's questions; how far somebody lives decides much of the rest. */

export type Answers = Record<string, string>;

const DISTANCES: Record<string, number> = { "under 2 km": 0.25, "2 to 10 km": 0.45, "over 10 km": 0.3 };

const WAYS: Record<string, Record<string, number>> = {
  "under 2 km": { "on foot": 0.45, bicycle: 0.3, "bus or train": 0.05, car: 0.1, "work at home": 0.1 },
  "2 to 10 km": { "on foot": 0.03, bicycle: 0.27, "bus or train": 0.3, car: 0.3, "work at home": 0.1 },
  "over 10 km": { "on foot": 0, bicycle: 0.04, "bus or train": 0.36, car: 0.42, "work at home": 0.18 },
};

/** Share of people who are content with their way to work. */
const CONTENT: Record<string, number> = {
  "on foot": 0.9, bicycle: 0.85, "bus or train": 0.5, car: 0.4, "work at home": 0.75,
};

/** Draw one person. */
export function person(random: () => number = Math.random): Answers {
  const distance = choose(DISTANCES, random);
  const way = choose(WAYS[distance]!, random);
  const content = random() < CONTENT[way]! ? "yes" : "no";
  return { "way to work": way, distance, "content with it": content };
}

function choose(shares: Record<string, number>, random: () => number): string {
  let place = random();
  const names = Object.keys(shares);
  return names.find((name) => (place -= shares[name]!) < 0) ?? names[names.length - 1]!;
}

/** Counts true answers, which only the demo knows. */
export class Truth {
  private readonly people: Answers[] = [];

  add(answers: Answers): void {
    this.people.push(answers);
  }

  get size(): number {
    return this.people.length;
  }

  /** Share of the people who gave these answers; null before the first person. */
  share(answers: Answers): number | null {
    if (!this.people.length) return null;
    const same = (one: Answers) => Object.entries(answers).every(([name, label]) => one[name] === label);
    return this.people.filter(same).length / this.people.length;
  }
}
