/** The same question elsewhere: a file, Python, curl. */

import { useState } from "preact/hooks";
import { address, path, questionWords } from "../api/client";
import type { Question } from "../api/types";
import { useSession } from "../state/context";
import { curl, python } from "../text/snippets";
import { Snippet } from "./copy";

export function Code({ question }: { question: Question }) {
  const { client, plan } = useSession();
  const asked = [new URL(".", location.href).href, plan.name, question, client.token !== ""] as const;
  return (
    <section class="code" aria-label="The same question elsewhere">
      <h2>Take it with you</h2>
      <Files question={question} />
      <Snippet title="Python" text={python(...asked)} />
      <Snippet title="curl" text={curl(...asked)} />
    </section>
  );
}

const FORMATS = [
  ["csv", "CSV"],
  ["arrow", "Arrow"],
  ["json", "JSON"],
] as const;

/** Links; with a token, buttons that load the file, because a link cannot send one. */
function Files({ question }: { question: Question }) {
  const { client, plan } = useSession();
  const [failure, setFailure] = useState("");
  const where = (format: string) => address(path(plan.name, "tables"), { ...questionWords(question), format });
  const stem = `${plan.name}-${question.attributes.join("-")}`.replace(/[^\p{L}\p{N}._-]+/gu, "_");
  const save = async (format: string) => {
    setFailure("");
    try {
      const response = await client.open(where(format), new AbortController().signal);
      download(await response.blob(), `${stem}.${format}`);
    } catch (error) {
      setFailure(`The file was not loaded. ${(error as Error).message}`);
    }
  };
  return (
    <p class="files">
      {FORMATS.map(([format, label]) =>
        client.token ? (
          <button key={format} type="button" onClick={() => save(format)}>
            {label}
          </button>
        ) : (
          <a key={format} class="button" href={where(format)} download={`${stem}.${format}`}>
            {label}
          </a>
        ),
      )}
      <span role="alert" class="error">
        {failure}
      </span>
    </p>
  );
}

function download(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
