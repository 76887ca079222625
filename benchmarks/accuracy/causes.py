"""Draw the causes that Adult has, for docs/causes.md.

python -m benchmarks.accuracy.causes
"""

from __future__ import annotations

import argparse
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.populations import population
from calmstream.commands.analyse import about
from calmstream.estimators.analysis.report import causes
from calmstream.estimators.methods.base import Request
from calmstream.estimators.methods.noise_aware import NoiseAware
from calmstream.evaluation.population import collect, local_plan

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "causes.svg"
DEVICES, EPSILON, LABELS = 400_000, "2", 8
LEFT, BAR, RIGHT, ROW = 260, 330, 110, 24  # pixels
RAISED, LOWERED = "#2563eb", "#d97706"


def draw(found: list[dict[str, Any]]) -> str:
    """Return an SVG: a bar from the share of a label without the cause to that with it."""
    parts, y = [], 0
    for number, cause in enumerate(found, 1):
        y += ROW + 12
        parts.append(f'<text x="8" y="{y}" font-weight="600">{number}. {about(cause)}</text>')
        for one in cause["labels"][:LABELS]:
            y += ROW
            low, high = sorted((one["without"], one["within"]))
            colour = RAISED if one["within"] > one["without"] else LOWERED
            name = escape(f"{one['attribute']}: {one['label']}")
            share = f"{100 * one['without']:.0f} → {100 * one['within']:.0f} %"
            bar = f'x="{LEFT + BAR * low:.1f}" width="{BAR * (high - low):.1f}" fill="{colour}"'
            parts += [
                f'<text x="{LEFT - 10}" y="{y}" text-anchor="end">{name}</text>',
                f'<rect x="{LEFT}" y="{y - 11}" width="{BAR}" height="12" fill="#e5e7eb"/>',
                f'<rect {bar} y="{y - 11}" height="12"/>',
                f'<text x="{LEFT + BAR + 10}" y="{y}">{share}</text>',
            ]
    width, height = LEFT + BAR + RIGHT, y + ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="13" fill="#111827">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = population("adult")
    domain, records = table.domain, table.codes
    plan = local_plan(NoiseAware(), Request(domain, EPSILON, DEVICES, 2))
    codes = records[np.random.default_rng(0).integers(len(records), size=DEVICES)]
    model = NoiseAware().fit(plan, collect(plan, codes, np.random.SeedSequence(1), exact=True))
    PICTURE.write_text(draw(causes(domain, model)))


if __name__ == "__main__":
    main()
