"""Turns paper/benchmarks/results/*.json into docs/benchmarks.md."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
INTRO = """# Benchmarks

Every table regenerates with the command above it. Times are medians of CPU time on one thread; compare ratios,
which were measured in the same run, rather than milliseconds, which depend on the machine.
"""


def table(rows: list[dict[str, object]]) -> str:
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(row.get(key, "")) for key in head) + " |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parts = [INTRO]
    for path in sorted((Path(__file__).parent / "results").glob("*.json")):
        document = json.loads(path.read_text())
        parts.append(f"## {document['title']}\n\n`{document['command']}`: {document['date']}, {document['setting']}\n")
        parts.append(table(document["rows"]) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
