/** The list of attributes with a search; some of them are chosen. */

import { useMemo, useState } from "preact/hooks";
import type { Attribute } from "../api/types";
import { counted } from "../text/format";
import { visible } from "../text/names";

interface PickerProps {
  readonly attributes: readonly Attribute[];
  readonly chosen: readonly string[];
  readonly most: number;
  readonly onChange: (chosen: string[]) => void;
}

const SEARCH_FROM = 6;

export function Picker({ attributes, chosen, most, onChange }: PickerProps) {
  const [search, setSearch] = useState("");
  const found = useMemo(() => matching(attributes, search), [attributes, search]);
  const toggle = (name: string) =>
    onChange(
      chosen.includes(name)
        ? chosen.filter((one) => one !== name)
        : most === 1
          ? [name]
          : [...chosen, name].slice(-most),
    );
  return (
    <fieldset class="picker">
      <legend>Attributes</legend>
      {attributes.length > SEARCH_FROM && <Search value={search} onChange={setSearch} found={found.length} />}
      <ul>
        {found.map((attribute) => {
          const place = chosen.indexOf(attribute.name);
          return (
            <li key={attribute.name}>
              <label class={place >= 0 ? "chosen" : ""}>
                <input
                  type={most === 1 ? "radio" : "checkbox"}
                  name="attribute"
                  checked={place >= 0}
                  onChange={() => toggle(attribute.name)}
                />
                <span class="picker-name">
                  <bdi>{visible(attribute.name)}</bdi>
                </span>
                <small>{place >= 0 && chosen.length > 1 ? ordinal(place) : attribute.labels.length}</small>
              </label>
            </li>
          );
        })}
      </ul>
      {found.length === 0 && <p class="hint">No attribute or label contains these letters.</p>}
    </fieldset>
  );
}

function Search({ value, onChange, found }: { value: string; onChange: (value: string) => void; found: number }) {
  return (
    <div class="search">
      <input
        type="search"
        placeholder="Search"
        aria-label="Search attributes and labels"
        value={value}
        onInput={(e) => onChange(e.currentTarget.value)}
      />
      <span class="sr" role="status">
        {value && `${counted(found, "attribute")} found`}
      </span>
    </div>
  );
}

/** Attributes whose name or one of whose labels contains the letters; names first. */
export function matching(attributes: readonly Attribute[], search: string): Attribute[] {
  const letters = search.trim().toLocaleLowerCase();
  if (!letters) return [...attributes];
  const has = (text: string) => text.toLocaleLowerCase().includes(letters);
  const named = attributes.filter((a) => has(a.name));
  return [...named, ...attributes.filter((a) => !has(a.name) && a.labels.some(has))];
}

function ordinal(place: number): string {
  return ["1st", "2nd", "3rd", "4th"][place] ?? `${place + 1}th`;
}
