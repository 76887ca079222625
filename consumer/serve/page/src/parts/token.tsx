import { useState } from "preact/hooks";

/** Asks for the bearer token, which stays in the memory of this page. */
export function TokenPrompt({ refused, onToken }: { refused: boolean; onToken: (token: string) => void }) {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (text.trim()) onToken(text.trim());
  };
  return (
    <main class="alone">
      <form class="token" onSubmit={submit}>
        <h1>This server asks for a token</h1>
        <p>
          Whoever runs it can give you one. It stays in the memory of this page and is forgotten when you close or
          reload it.
        </p>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          aria-describedby="token-refused"
        />
        <p id="token-refused" class="error" role="alert">
          {refused ? "The server refuses this token." : ""}
        </p>
        <button type="submit" class="primary">
          Continue
        </button>
      </form>
    </main>
  );
}
