"""The gallery: runs every script of examples/, and writes docs/gallery.md with their pictures, and three notebooks.

    python tools/gallery.py [NAME …]      # pictures of these scripts only; pages and notebooks are always written

A script draws one picture, NAME.svg, into the folder it runs in. Lines `# %%` cut it into the cells of a notebook.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES, PAGE, PICTURES = ROOT / "examples", ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
#: In the order of the page.
ORDER = (
    "f1_without_tuning",
    "guaranteed_floor",
    "llm_judge",
    "screening",
    "fair_decisions",
    "multi_label",
    "rare_masks",
    "ranked_lists",
    "sequence_labelling",
    "lp_allocation",
    "lp_svm",
    "plain_loop_ddp",
)
NOTEBOOKS = ("f1_without_tuning", "guaranteed_floor", "multi_label")
HEAD = """# Gallery

Twelve scripts, each under a minute, with the picture that it draws. They run in the tests; `python tools/gallery.py`
draws the pictures again. Three of them are also notebooks, in `examples/notebooks`.
"""


def parts(name: str) -> tuple[str, str, str]:
    """(title, the rest of the docstring, the code after it) of a script."""
    text = (EXAMPLES / f"{name}.py").read_text()
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree) or ""
    title, _, rest = docstring.partition("\n")
    code = "\n".join(text.splitlines()[tree.body[0].end_lineno :])
    return title.strip().rstrip("."), rest.strip(), code.strip()


def page() -> str:
    sections = [HEAD]
    for name in ORDER:
        title, rest, _ = parts(name)
        notebook = f", [notebook](../examples/notebooks/{name}.ipynb)" if name in NOTEBOOKS else ""
        code = f":::{{dropdown}} The code\n```{{literalinclude}} ../examples/{name}.py\n:language: python\n```\n:::"
        link = f"[`examples/{name}.py`](../examples/{name}.py){notebook}"
        short, _, more = title.partition(": ")
        said = f"*{more[0].upper()}{more[1:]}.*\n\n{rest}" if more else rest
        sections.append(f"## {short}\n\n{said}\n\n![{title}](gallery/{name}.svg)\n\n{link}\n\n{code}\n")
    return "\n".join(sections)


def notebook(name: str) -> str:
    """The script as a notebook without outputs, which any Jupyter opens and runs."""
    title, rest, code = parts(name)
    sources = [part.strip("\n") for part in code.split("# %%\n") if part.strip()]
    cells: list[dict[str, object]] = [{"cell_type": "markdown", "source": f"# {title}\n\n{rest}"}]
    cells += [{"cell_type": "code", "source": source, "outputs": [], "execution_count": None} for source in sources]
    shown = f'from IPython.display import SVG\n\nSVG("{name}.svg")'
    cells.append({"cell_type": "code", "source": shown, "outputs": [], "execution_count": None})
    for number, cell in enumerate(cells):
        cell |= {"id": f"{name[:20]}-{number}".replace("_", "-"), "metadata": {}}
        cell["source"] = str(cell["source"]).splitlines(keepends=True)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    (EXAMPLES / "notebooks").mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    for name in sys.argv[1:] or ORDER:
        subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py")], cwd=PICTURES, env=environment, check=True)
    PAGE.write_text(page())
    for name in NOTEBOOKS:
        (EXAMPLES / "notebooks" / f"{name}.ipynb").write_text(notebook(name))


if __name__ == "__main__":
    main()
