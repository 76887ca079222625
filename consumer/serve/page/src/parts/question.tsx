/** The rest of a question: windows, what is subtracted, groups of labels, given attributes. */

import { useEffect, useState } from "preact/hooks";
import type { Question } from "../api/types";
import { visible } from "../text/names";

interface QuestionProps {
  readonly question: Question;
  readonly onAsk: (question: Question) => void;
}

export function QuestionForm({ question, onAsk }: QuestionProps) {
  const [draft, setDraft] = useState(question);
  useEffect(() => setDraft(question), [JSON.stringify(question)]);
  const pair = question.attributes.length === 2;
  const more = question.minus !== "" || question.group !== "" || (!pair && question.given.length > 0);
  const submit = (event: Event) => {
    event.preventDefault();
    onAsk({ ...draft, windows: draft.windows.trim() || "total", minus: draft.minus.trim(), group: draft.group.trim() });
  };
  return (
    <form class="question" onSubmit={submit} aria-label="Question">
      <div class="question-row">
        <Windows value={question.windows} onChange={(windows) => onAsk({ ...draft, windows })} />
        {pair && <Within question={question} onChange={(given) => onAsk({ ...draft, given })} />}
      </div>
      <details open={more}>
        <summary>Compare windows, group labels</summary>
        <div class="question-more">
          <Field
            name="minus"
            label="Minus windows"
            hint="Subtracts the table of these windows, such as 0..6."
            value={draft.minus}
            onInput={(minus) => setDraft({ ...draft, minus })}
          />
          <Field
            name="group"
            label="Groups of labels"
            hint={example(question)}
            value={draft.group}
            onInput={(group) => setDraft({ ...draft, group })}
          />
          {question.attributes.length > 2 && (
            <Given question={draft} onChange={(given) => setDraft({ ...draft, given })} />
          )}
          <button type="submit" class="primary">
            Ask
          </button>
        </div>
      </details>
    </form>
  );
}

const NAMED = [
  ["total", "All windows"],
  ["current", "Now"],
  ["latest", "Newest window"],
] as const;

function Windows({ value, onChange }: { value: string; onChange: (windows: string) => void }) {
  const named = NAMED.some(([name]) => name === value);
  const [text, setText] = useState(named ? "" : value);
  const [chosen, setChosen] = useState(named ? value : "range");
  useEffect(() => {
    setChosen(named ? value : "range");
    if (!named) setText(value);
  }, [value]);
  const leave = () => text.trim() && text.trim() !== value && onChange(text.trim());
  return (
    <fieldset class="segments">
      <legend class="sr">Windows</legend>
      {NAMED.map(([name, label]) => (
        <label key={name}>
          <input type="radio" name="windows" checked={chosen === name} onChange={() => onChange(name)} />
          <span>{label}</span>
        </label>
      ))}
      <label>
        <input type="radio" name="windows" checked={chosen === "range"} onChange={() => setChosen("range")} />
        <span>Range</span>
      </label>
      {chosen === "range" && (
        <input
          class="range"
          aria-label="Range of windows"
          placeholder="7, 3..9 or 2026-03-01..2026-03-31"
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          onBlur={leave}
          onKeyDown={(e) => {
            if (e.key === "Enter") {
              e.preventDefault();
              leave();
            }
          }}
        />
      )}
    </fieldset>
  );
}

function Field({
  name,
  label,
  hint,
  value,
  onInput,
}: {
  name: string;
  label: string;
  hint: string;
  value: string;
  onInput: (value: string) => void;
}) {
  return (
    <div class="field">
      <label for={name}>{label}</label>
      <input
        id={name}
        value={value}
        autocomplete="off"
        spellcheck={false}
        aria-describedby={`${name}-hint`}
        onInput={(e) => onInput(e.currentTarget.value)}
      />
      <small id={`${name}-hint`}>{hint}</small>
    </div>
  );
}

/** Of a pair: proportions of all, or within each value of one of both. */
function Within({ question, onChange }: { question: Question; onChange: (given: string[]) => void }) {
  return (
    <fieldset class="segments">
      <legend class="sr">Proportions</legend>
      {["", ...question.attributes].map((name) => (
        <label key={name}>
          <input
            type="radio"
            name="within"
            checked={(question.given[0] ?? "") === name}
            onChange={() => onChange(name ? [name] : [])}
          />
          <span>
            {name ? (
              <>
                Within each <bdi>{visible(name)}</bdi>
              </>
            ) : (
              "Of all"
            )}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

function Given({ question, onChange }: { question: Question; onChange: (given: string[]) => void }) {
  const toggle = (name: string) =>
    onChange(question.given.includes(name) ? question.given.filter((one) => one !== name) : [...question.given, name]);
  return (
    <fieldset class="given">
      <legend>Within each value of</legend>
      {question.attributes.map((name) => {
        const on = question.given.includes(name);
        const last = !on && question.given.length + 1 >= question.attributes.length;
        return (
          <label key={name}>
            <input type="checkbox" checked={on} disabled={last} onChange={() => toggle(name)} />
            <bdi>{visible(name)}</bdi>
          </label>
        );
      })}
    </fieldset>
  );
}

function example({ attributes }: Question): string {
  return `${attributes[0] ?? "region"}=A|B,C puts B and C together; age=17-30|31+ groups numbers; ; separates attributes.`;
}
