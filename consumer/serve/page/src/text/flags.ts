/** What the flags of an answer mean, in a sentence each. */

export const FLAGS: Readonly<Record<string, string>> = {
  covered: "Some group of devices reported on all of these attributes together.",
  modelled: "Estimated by a model of all reports; the errors include shrinkage and what no group saw together.",
  maxent:
    "Combined from smaller tables. What no group saw together is taken to be as independent as they allow; the errors leave this out.",
  clipped: "Negative estimates were corrected, so intervals near zero are too wide rather than too narrow.",
  noise: "The noise exceeds what the table could show. Draw no conclusion from it.",
  uniform: "No report is about these attributes.",
  raw: "Cells may be negative and need not add up to 100 %. Use sums of cells.",
  suspicious: "The raw counts look forged. Do not use this table before an inspection.",
  approximate: "The errors take the cells as independent.",
  conditional: "Proportions within each value of the given attributes.",
  difference: "The change from one range of windows to another, before negative estimates are corrected.",
  paired: "Some devices are on both sides; the tests are cautious.",
  repeated: "Some devices reported several times on one side; the tests count each device once.",
  partial: "The reports do not cover all combinations of these attributes together.",
  "left-out": "Views with too few reports were left out.",
  binned: "Values are known by their bin, so the interval of a mean holds both ends of the bins.",
  blurred: "Values are rounded at random to a neighbouring point, so quantiles are known to one step.",
  clamped: "Values outside the edges count at the nearest edge.",
  dependent: "A device may have reported in several of these windows; the errors take reports as independent.",
};

export const NOISE = "noise";
export const SUSPICIOUS = "suspicious";

export function meaning(flag: string): string {
  return FLAGS[flag] ?? "This page does not know the flag; the documentation of the server does.";
}
