import { Fragment } from "preact";
import { visible } from "../text/names";

/** Names of attributes with a sign between them. */
export function Names({ of }: { of: readonly string[] }) {
  return (
    <>
      {of.map((name, i) => (
        <Fragment key={name}>
          {i > 0 && (
            <>
              <i class="and" aria-hidden="true">
                ×
              </i>
              <span class="sr"> and </span>
            </>
          )}
          <bdi>{visible(name)}</bdi>
        </Fragment>
      ))}
    </>
  );
}
