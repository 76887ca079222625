/** What a person sees of a device's edge: what is asked, what it costs, what left, and how to stop. */

import {
  Gateway, IndexedDbStore, PlanRefused, Reporter, Sender, history, rejoin, withdraw, type Plan, type Sent, type Status,
} from "../src/index.js";
import { costs, decoded } from "../src/words.js";

/** Belongs to the application, as the page does: the roots are those that it trusts. */
interface Config {
  /** Address of the gateway; empty where it is this page's own host. */
  gateway: string;
  roots: string[];
}

const STATUSES: Record<Status, string> = {
  ready: "You can report now.",
  withdrawn: "You stopped all reports.",
  refused: "This device does not accept the plan any more.",
  "not started": "The plan has not started yet.",
  over: "The plan is over.",
  "already reported": "You have reported. Nothing more is asked now.",
  "not its slot": "It is not this device's turn yet.",
  "budget spent": "Everything that these questions may cost is spent.",
  "span epsilon": "Everything that all questions together may cost for now is spent.",
  "ever epsilon": "Everything that all questions together may ever cost is spent.",
};

const store = new IndexedDbStore();

function element<K extends keyof HTMLElementTagNameMap>(
  kind: K, content: string | Node[] = "", attributes: Record<string, string> = {},
): HTMLElementTagNameMap[K] {
  const made = document.createElement(kind);
  made.append(...(typeof content === "string" ? [content] : content));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function found<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

function say(text: string): void {
  found("message").textContent = text;
}

/** The guarantee and the cost of one report, in words. */
function cost({ plan }: Reporter): string {
  const factor = Math.exp(Number(plan.epsilon));
  const times = factor < 1e6 ? String(Number(factor.toPrecision(2))) : "more than a million";
  const { kind, windows } = plan.guarantee;
  const minutes = Math.round((windows * plan.window) / 60);
  const often = kind === "once" ? "You report once" : `You report at most once in any ${minutes} minutes`;
  return (
    `${often}. A report costs ε = ${plan.epsilon}: whatever leaves this device is at most ${times} times ` +
    "as likely with your answer as with any other."
  );
}

/** The section of one plan: who asks what, at which cost, and a form to answer. */
async function section(reporter: Reporter, sender: Sender): Promise<HTMLElement> {
  const { plan, owner } = reporter;
  const asked = new Set(await reporter.asked());
  const remaining = await reporter.remaining();
  const status = await reporter.status();
  const fields = plan.domain
    .filter(({ name }) => asked.has(name))
    .map(({ name, labels, hashed }) => {
      if (hashed) return element("label", [document.createTextNode(hashed.name), element("input", "", { name: hashed.name })]);
      const options = labels.map((label) => element("option", label));
      return element("label", [document.createTextNode(name), element("select", options, { name })]);
    });
  const button = element("button", "Report", { type: "submit" });
  button.disabled = status !== "ready";
  const form = element("form", [...fields, button]);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    button.disabled = true;
    void report(reporter, sender, Object.fromEntries(new FormData(form)));
  });
  return element("section", [
    element("h2", plan.name),
    element("p", `${owner} asks. Purpose: ${plan.purpose}.`),
    element("p", `This device is asked about ${[...asked].join(", ")}, and under this plan about nothing else.`),
    element("p", cost(reporter)),
    element("p", `What ${owner} asks may still cost ε = ${remaining.span} for now.`),
    element("p", STATUSES[status], { class: "status" }),
    form,
  ]);
}

async function report(reporter: Reporter, sender: Sender, record: Record<string, unknown>): Promise<void> {
  say("Reporting …");
  try {
    const { report, delivery } = await sender.send(reporter, record);
    await show(sender);
    if (!report) say(STATUSES[await reporter.status()]);
    else if (delivery.taken) say("Reported. Below is what left this device.");
    else if (delivery.refused.length) say(`The gateway did not take the report: ${delivery.refused.join(", ")}.`);
    else say("The report is made and waits for the gateway.");
  } catch (error) {
    say(`Nothing was reported. ${(error as Error).message}`);
  }
}

function entry(sent: Sent): HTMLLIElement {
  const when = element("time", new Date(sent.when * 1000).toLocaleString());
  const about = `: ${sent.owner} asked about ${sent.attributes.join(", ")} (${sent.plan}, ${sent.purpose}).`;
  const plan = plans.get(sent.digest);
  const says = plan && sent.value ? `${decoded(plan, sent.value)} ` : "";
  const cost = `It cost ε = ${sent.epsilon}; ${sent.remains} was left for ${sent.owner}.`;
  const value = sent.value || `${sent.value_bytes} bytes, SHA-256 ${sent.value_sha256}`;
  const left = element("details", [element("summary", "As it left"), element("code", value)]);
  return element("li", [when, document.createTextNode(about), element("p", says + cost), left]);
}

async function showHistory(): Promise<void> {
  const sent = await history(store);
  found("nothing").hidden = sent.length > 0;
  found("history").replaceChildren(...[...sent].reverse().map(entry));
  const lines = costs(await store.read(), Date.now() / 1000);
  found("costs").replaceChildren(...lines.map((line) => element("li", line)));
}

async function showStopped(sender: Sender): Promise<void> {
  const { withdrawn } = await store.read();
  found("stopped").textContent = withdrawn
    ? "All reports are stopped. What was spent stays spent."
    : "This device reports only when you press a button above.";
  const button = found<HTMLButtonElement>("withdraw");
  button.textContent = withdrawn ? "Allow reports again" : "Stop all reports";
  button.onclick = async () => {
    await (withdrawn ? rejoin(store) : withdraw(store));
    await show(sender);
    say(withdrawn ? "Reports are allowed." : "All reports are stopped.");
  };
}

/** Plans by digest, to put reports into words. */
const plans = new Map<string, Plan>();
let config: Config;
let gateway: Gateway;

/** Show every plan of the gateway, what left, and the button that stops it all. */
async function show(sender: Sender): Promise<void> {
  const sections: HTMLElement[] = [];
  for (const { digest, name } of await gateway.plans()) {
    try {
      const envelope = await gateway.plan(digest);
      const reporter = await Reporter.open(envelope, store, { policy: { roots: config.roots } });
      plans.set(digest, reporter.plan);
      sections.push(await section(reporter, sender));
    } catch (error) {
      if (!(error instanceof PlanRefused)) throw error;
      const why = `This device does not accept the plan: ${error.reason.replaceAll("_", " ")}.`;
      sections.push(element("section", [element("h2", name), element("p", why)]));
    }
  }
  found("plans").replaceChildren(...sections);
  await showHistory();
  await showStopped(sender);
}

async function start(): Promise<void> {
  config = (await (await fetch("config.json")).json()) as Config;
  gateway = new Gateway(config.gateway);
  const sender = new Sender(gateway, store);
  sender.deliverOnHide();
  await show(sender);
  say("");
  await sender.deliver();
}

start().catch((error: Error) => say(`Nothing can be reported now. ${error.message}`));
