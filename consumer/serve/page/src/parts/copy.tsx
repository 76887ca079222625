import { useState } from "preact/hooks";

/** A text to copy, with a button that says whether it worked. */
export function Snippet({ title, text }: { title: string; text: string }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
    } catch {
      setSaid("Select the text and copy it");
    }
    setTimeout(() => setSaid(""), 2500);
  };
  return (
    <section class="snippet" aria-label={title}>
      <header>
        <h3>{title}</h3>
        <span role="status">{said}</span>
        <button type="button" class="quiet" onClick={copy} aria-label={`Copy ${title}`}>
          Copy
        </button>
      </header>
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
    </section>
  );
}
