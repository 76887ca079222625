import { useState } from "preact/hooks";
import type { Attribute } from "../api/types";
import { visible } from "../text/names";
import { Picker } from "./picker";

interface ChooserProps {
  readonly attributes: readonly Attribute[];
  readonly chosen: readonly string[];
  readonly most: number;
  readonly onChange: (chosen: string[]) => void;
}

/** The list of attributes beside a view; on a narrow screen it opens above it. */
export function Chooser(props: ChooserProps) {
  const { chosen } = props;
  const [open, setOpen] = useState(chosen.length === 0);
  return (
    <aside aria-label="Choice of attributes">
      <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        {chosen.length ? `Attributes: ${chosen.map(visible).join(" × ")}` : "Choose attributes"}
      </button>
      <div class={open ? "" : "folded"}>
        <Picker {...props} />
      </div>
    </aside>
  );
}
