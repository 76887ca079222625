/** What the server answers, as far as the page needs it; docs/serving.md names this file. Times are unix seconds. */

export interface PlanEntry {
  readonly name: string;
  readonly digest: string;
  readonly owner: string;
  readonly purpose: string;
  readonly method: string;
  readonly epsilon: string | number;
  readonly newest: number | null;
}

export interface Attribute {
  readonly name: string;
  readonly labels: readonly string[];
  /** Missing for a category. */
  readonly kind?: "ordered" | "number" | "option";
  readonly unit?: string;
  /** Of a number, rising. */
  readonly edges?: readonly number[];
  readonly rounding?: "bin" | "grid";
  /** Whether values outside the edges have labels of their own. */
  readonly below?: boolean;
  readonly above?: boolean;
}

export interface Plan {
  readonly name: string;
  readonly digest: string;
  readonly owner: string;
  readonly purpose: string;
  readonly method: string;
  readonly epsilon: string | number;
  /** Sentences: what is collected, from whom, at what privacy cost. */
  readonly words: readonly string[];
  readonly loss: {
    readonly report: string | number;
    readonly window: string | number;
    readonly year: string | number;
    readonly plan: string | number;
  };
  readonly guarantee: string;
  readonly windows: {
    readonly seconds: number;
    readonly grace: number;
    readonly first_start: number;
    readonly last_end: number | null;
  };
  readonly attributes: readonly Attribute[];
  /** Attributes whose words nobody listed. */
  readonly hashed?: readonly HashedAttribute[];
  readonly published: readonly (readonly string[])[];
  /** Statistics of the published tables. */
  readonly summaries?: readonly string[];
}

export interface HashedAttribute {
  readonly name: string;
  /** Attributes within whose labels words can be asked. */
  readonly given: readonly string[];
}

export interface Final {
  readonly window: number;
  readonly start: number;
  readonly end: number;
  readonly reports: number;
  /** Rejected records by reason. */
  readonly rejected: Readonly<Record<string, number>>;
  readonly suspicious: boolean;
}

export interface WindowList {
  readonly newest: number | null;
  readonly kept: readonly (readonly [number, number])[];
  readonly finals: readonly Final[];
  readonly early: { readonly window: number; readonly reports: number } | null;
}

export interface WindowSpan {
  readonly first: number;
  readonly last: number;
  readonly total: boolean;
  /** Whether it says what the value is now, with what earlier windows say. */
  readonly current: boolean;
  readonly start: number;
  readonly end: number;
}

/** Cells are row-major: the last attribute is the fastest. */
export interface Answer {
  readonly plan: string;
  readonly attributes: readonly string[];
  readonly labels: readonly (readonly string[])[];
  readonly table: readonly number[];
  readonly stderr: readonly number[];
  readonly flags: readonly string[];
  readonly windows: readonly WindowSpan[];
  readonly reports: number;
  readonly revision: readonly number[];
}

/** A statistic with a 95 % interval; null where nothing is known. */
export interface Statistic {
  readonly statistic: string;
  readonly value: number | null;
  readonly stderr: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

export interface Summary {
  readonly plan: string;
  readonly attributes: readonly string[];
  readonly unit: string;
  readonly given: readonly string[];
  readonly rows: readonly { readonly labels: readonly string[]; readonly statistics: readonly Statistic[] }[];
  readonly flags: readonly string[];
  readonly windows: readonly WindowSpan[];
  readonly reports: number;
  readonly revision: readonly number[];
}

export interface SeriesWindow {
  readonly window: number;
  readonly start: number;
  readonly end: number;
  readonly reports: number;
  readonly flags: readonly string[];
  /** null where there is no table. */
  readonly table: readonly number[] | null;
  readonly stderr: readonly number[] | null;
  readonly current: Tracked | null;
}

/** What the table is now: a window, with what earlier ones say about it. */
export interface Tracked {
  readonly reports: number;
  readonly flags: readonly string[];
  readonly table: readonly number[];
  readonly stderr: readonly number[];
}

export interface Series {
  readonly attributes: readonly string[];
  readonly labels: readonly (readonly string[])[];
  readonly windows: readonly SeriesWindow[];
  readonly truncated: boolean;
}

export interface Pair {
  readonly attributes: readonly [string, string];
  /** Cramér's V, 0 to 1. */
  readonly strength: number;
  readonly stderr: number | null;
  readonly p: number | null;
  readonly verdict: string;
}

/** A hidden property of records: its share of all, the share of draws that have it, and its labels. */
export interface Cause {
  readonly share: number;
  readonly stderr: number;
  readonly agreement: number;
  readonly labels: readonly {
    readonly attribute: string;
    readonly label: string;
    readonly without: number;
    readonly within: number;
    readonly stderr: number;
  }[];
}

export interface Associations {
  readonly windows: readonly WindowSpan[];
  readonly reports: number;
  readonly pairs: readonly Pair[];
  readonly causes: readonly Cause[];
  /** Edges of the Chow-Liu tree with their mutual information in nats. */
  readonly tree: readonly (readonly [string, string, number])[];
}

/** A test of change of one table; null and empty where there is none, with a reason. */
export interface TableChange {
  readonly attributes: readonly string[];
  readonly p: number | null;
  /** After the correction for many tables. */
  readonly p_adjusted: number | null;
  /** Of the test whether the dependence of the attributes changed, beside their margins. */
  readonly dependence_p: number | null;
  readonly flags: readonly string[];
  readonly reason: string;
  readonly differences: readonly {
    readonly labels: readonly string[];
    readonly value: number;
    readonly stderr: number;
  }[];
}

export interface ChangeTests {
  readonly window: Omit<WindowSpan, "total" | "current">;
  readonly against: Omit<WindowSpan, "total" | "current">;
  readonly reports: readonly [number, number];
  readonly flags: readonly string[];
  readonly tables: readonly TableChange[];
}

export interface Question {
  readonly attributes: readonly string[];
  readonly windows: string;
  readonly minus: string;
  readonly group: string;
  readonly given: readonly string[];
}

/** Shares of candidates; of each label of a given attribute, the candidates' cells stand together. */
export interface WordShares extends Answer {
  readonly seen: readonly boolean[];
  readonly collision: readonly boolean[];
  /** By label, the smallest share that would be seen. */
  readonly limits: readonly number[];
  /** By label, the share of one word that would explain the rest; 0 where noise does. */
  readonly unexplained: readonly number[];
}
