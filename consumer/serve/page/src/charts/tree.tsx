/** The Chow-Liu tree: the strongest associations that connect all attributes without a circle. */

import { hierarchy, tree as layout, type HierarchyPointNode } from "d3-hierarchy";
import { linkHorizontal } from "d3-shape";
import { useMemo } from "preact/hooks";

type Edge = readonly [string, string, number];

interface Node {
  readonly name: string;
  readonly weight: number;
  readonly children: Node[];
}

const ROW = 30;
const PAD = 8;

export function Tree({ edges, href }: { edges: readonly Edge[]; href: (a: string, b: string) => string }) {
  const roots = useMemo(() => forest(edges), [edges]);
  return (
    <div class="trees">
      {roots.map((root) => (
        <One key={root.name} root={root} href={href} />
      ))}
    </div>
  );
}

function One({ root, href }: { root: Node; href: (a: string, b: string) => string }) {
  const top = hierarchy(root);
  const column = 190;
  const placed = layout<Node>().nodeSize([ROW, column])(top);
  const nodes = placed.descendants();
  const low = Math.min(...nodes.map((n) => n.x));
  const height = Math.max(...nodes.map((n) => n.x)) - low + ROW + PAD;
  const width = (top.height + 1) * column;
  const strongest = Math.max(...nodes.map((n) => n.data.weight), 1e-9);
  const path = linkHorizontal<unknown, HierarchyPointNode<Node>>()
    .x((n) => n.y + 6)
    .y((n) => n.x - low + ROW / 2)
    .source((l) => beside((l as { source: HierarchyPointNode<Node> }).source))
    .target((l) => (l as { target: HierarchyPointNode<Node> }).target);
  return (
    <div class="tree" tabIndex={0} role="region" aria-label={`Chow-Liu tree from ${root.name}`}>
      <svg width={width} height={height} aria-hidden="true">
        {placed.links().map((l) => (
          <path
            key={l.target.data.name}
            class="edge"
            d={path(l as never) ?? ""}
            stroke-width={1 + (6 * l.target.data.weight) / strongest}
          />
        ))}
        {nodes.map((n) => (
          <g key={n.data.name} transform={`translate(${n.y + 6},${n.x - low + ROW / 2})`}>
            <circle class="node" r="4.5" />
            <text class="node-label" x="10" y="4">
              {cut(n.data.name)}
              <title>{n.data.name}</title>
            </text>
          </g>
        ))}
      </svg>
      <ul class="sr">
        {placed.links().map((l) => (
          <li key={l.target.data.name}>
            <a href={href(l.source.data.name, l.target.data.name)}>
              {`${l.source.data.name} and ${l.target.data.name}, mutual information ${l.target.data.weight.toFixed(3)} nats`}
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Where the edges of a node begin: behind its label. */
function beside(node: HierarchyPointNode<Node>): HierarchyPointNode<Node> {
  return {
    ...node,
    x: node.x,
    y: node.y + 14 + Math.min(130, 7.2 * [...cut(node.data.name)].length),
  } as HierarchyPointNode<Node>;
}

function cut(name: string): string {
  const letters = [...name];
  return letters.length > 20 ? `${letters.slice(0, 19).join("")}…` : name;
}

/** One tree for each connected part; the root is the attribute with the most neighbours. */
export function forest(edges: readonly Edge[]): Node[] {
  const neighbours = new Map<string, [string, number][]>();
  const add = (a: string, b: string, weight: number) => neighbours.set(a, [...(neighbours.get(a) ?? []), [b, weight]]);
  for (const [a, b, weight] of edges) {
    add(a, b, weight);
    add(b, a, weight);
  }
  const seen = new Set<string>();
  const grow = (name: string, weight: number): Node => {
    seen.add(name);
    const next = [...neighbours.get(name)!].sort((x, y) => y[1] - x[1]);
    const children: Node[] = [];
    for (const [other, own] of next) if (!seen.has(other)) children.push(grow(other, own));
    return { name, weight, children };
  };
  const names = [...neighbours.keys()].sort((a, b) => neighbours.get(b)!.length - neighbours.get(a)!.length);
  return names.flatMap((name) => (seen.has(name) ? [] : [grow(name, 0)]));
}
