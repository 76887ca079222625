/** The query: any attributes, any windows, grouped or given others, as chart, table, file or code. */

import type { Question } from "../api/types";
import { Result } from "../parts/result";
import { Chooser } from "../parts/chooser";
import { NoReports } from "../parts/no_reports";
import { QuestionForm } from "../parts/question";
import { Statistics } from "../parts/statistics";
import { Code } from "../parts/code";
import { Words } from "../parts/words";
import { Empty, Loaded } from "../parts/states";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { link, replace } from "../state/route";
import { joined, separated } from "../text/names";

const MOST = 4;

export function Tables({ words }: { words: Readonly<Record<string, string>> }) {
  const { plan } = useSession();
  const question = readQuestion(words);
  const shape = words["as"] === "table" ? "table" : "chart";
  const show = (next: Question, as: string) => replace(link(plan.name, "tables", questionLink(next, as)));
  const choose = (attributes: string[]) => {
    const given = attributes.length > 1 ? question.given.filter((name) => attributes.includes(name)) : [];
    show({ ...question, attributes, given }, shape);
  };
  return (
    <div class="split">
      <h1 class="sr">Tables</h1>
      <Chooser attributes={plan.attributes} chosen={question.attributes} most={MOST} onChange={choose} />
      <div class="split-main">
        {question.attributes.length === 0 ? (
          <Empty title="Which table?">
            Choose one attribute for its table, or two or three for how they go together. A question costs no privacy.
          </Empty>
        ) : (
          <Asked question={question} shape={shape} onShow={show} />
        )}
        {plan.hashed?.map((one) => (
          <Words key={one.name} of={one} />
        ))}
      </div>
    </div>
  );
}

interface AskedProps {
  readonly question: Question;
  readonly shape: "chart" | "table";
  readonly onShow: (question: Question, shape: string) => void;
}

function Asked({ question, shape, onShow }: AskedProps) {
  const { client, plan, newest } = useSession();
  const key = `table ${plan.digest} ${JSON.stringify(question)}`;
  const answer = useResource(key, newest, (signal) => client.table(plan.name, question, signal));
  return (
    <>
      <QuestionForm key={question.attributes.join("\n")} question={question} onAsk={(next) => onShow(next, shape)} />
      <Loaded
        of={answer}
        lines={10}
        refused={(problem) =>
          problem.reason === "no_reports" && (
            <NoReports onWindows={(windows) => onShow({ ...question, windows, minus: "" }, shape)} />
          )
        }
      >
        {(found) => (
          <Result answer={found} shape={shape} onShape={(as) => onShow(question, as)}>
            <Statistics question={question} />
          </Result>
        )}
      </Loaded>
      <Code question={question} />
    </>
  );
}

export function readQuestion(words: Readonly<Record<string, string>>): Question {
  const attributes = separated(words["attributes"] ?? "");
  return {
    attributes,
    windows: words["windows"] || "total",
    minus: words["minus"] ?? "",
    group: words["group"] ?? "",
    given: separated(words["given"] ?? "").filter((name) => attributes.includes(name)),
  };
}

function questionLink(question: Question, as: string): Record<string, string> {
  return {
    attributes: joined(question.attributes),
    windows: question.windows === "total" ? "" : question.windows,
    minus: question.minus,
    group: question.group,
    given: joined(question.given),
    as: as === "table" ? as : "",
  };
}
