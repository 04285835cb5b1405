"""Draws docs/_static/speed.svg from a measurement in docs/performance.

    python docs/_ext/draw_speed.py [docs/performance/DATE-MACHINE.json]

A bar is Oar's time over the fastest peer's; shorter is faster.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "docs" / "performance" / "2026-11-21-zen4.json"
PICTURE = ROOT / "docs" / "_static" / "speed.svg"
LEFT, WIDTH, ROW, TOP, RIGHT = 250, 400, 40, 58, 90
COLORS = ("#2a6fbb", "#8fb8de")


def svg(data: dict) -> str:
    """The picture as SVG text."""
    rows = data["rows"]
    height, total = TOP + ROW * len(rows) + 34, LEFT + WIDTH + RIGHT
    one = LEFT + WIDTH / 1.1
    bottom = TOP + ROW * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" '
        f'viewBox="0 0 {total} {height}" font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{total}" height="{height}" fill="#fff"/>',
        '<text x="12" y="22" font-size="15" font-weight="bold">'
        "Oar's time over the fastest peer's (shorter is faster)</text>",
        f'<text x="12" y="42" fill="#666">{data["machine"]}, {data["date"]}; peers: {", ".join(data["peers"])}</text>',
    ]
    for i, row in enumerate(rows):
        y = TOP + ROW * i
        out.append(f'<text x="{LEFT - 8}" y="{y + 22}" text-anchor="end">{row["name"]}</text>')
        for k in range(2):
            ratio = row["oar"][k] / row["peer"][k]
            length = max(2.0, ratio / 1.1 * WIDTH)
            at = y + 4 + 15 * k
            out.append(f'<rect x="{LEFT}" y="{at}" width="{length:.1f}" height="13" fill="{COLORS[k]}"/>')
            label = f"{ratio:.2f} ({row['fastest'][k]})"
            out.append(f'<text x="{LEFT + length + 5:.1f}" y="{at + 11}" font-size="11">{label}</text>')
    out.append(f'<line x1="{one:.1f}" y1="{TOP}" x2="{one:.1f}" y2="{bottom}" stroke="#c33" stroke-dasharray="4 3"/>')
    for k, name in enumerate(("1 thread", "2 threads")):
        x = LEFT + 100 * k
        out.append(f'<rect x="{x}" y="{bottom + 10}" width="13" height="13" fill="{COLORS[k]}"/>')
        out.append(f'<text x="{x + 18}" y="{bottom + 21}">{name}</text>')
    out.append(f'<text x="{one:.1f}" y="{bottom + 21}" text-anchor="middle" fill="#c33">equal</text>')
    return "\n".join([*out, "</svg>", ""])


def main(arguments: list[str]) -> None:
    source = Path(arguments[0]) if arguments else DEFAULT
    PICTURE.write_text(svg(json.loads(source.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])
