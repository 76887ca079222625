/** Patterns that charts refer to: noise and suspicion are shown by more than a colour. */
export function Hatches() {
  return (
    <svg class="hatches" width="0" height="0" aria-hidden="true">
      <defs>
        {["noise", "suspicious", "plain"].map((kind) => (
          <pattern
            key={kind}
            id={`hatch-${kind}`}
            class={`hatch ${kind}`}
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <rect width="6" height="6" />
            <line x1="0" x2="0" y1="0" y2="6" />
          </pattern>
        ))}
      </defs>
    </svg>
  );
}
