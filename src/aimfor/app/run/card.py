"""The model card: README.md of a run folder, in the form model hubs read."""

from __future__ import annotations

import json
from typing import Any

from ...fitting.config import Recipe
from .folder import Prepared


def model_card(ready: Prepared, recipe: Recipe, metrics: dict[str, Any]) -> str:
    """Markdown with a YAML head. Names that come from the user are quoted as JSON, which is YAML as well."""
    settings, test, best = ready.settings, metrics["test"], metrics["chosen"]
    quoted = {
        "data": json.dumps(ready.source.name, ensure_ascii=False),
        "metric": json.dumps(settings.metric),
    }
    rows = metrics["rows"]
    notes = "".join(f"- {_plain(note)}\n" for note in metrics["notes"]) or "- none\n"
    decision = (
        f"Decisions are `score > {metrics['threshold']:.6g}`; the threshold was chosen on validation data. "
        f"The positive class is `{_plain(ready.labels.classes[1])}`.\n"
        if ready.labels.binary
        else "The class with the highest score is decided.\n"
    )
    return f"""---
library_name: aimfor
tags: [aimfor, {"tabular-classification" if ready.source.images is None else "image-classification"}]
model-index:
- name: {quoted["data"]}
  results:
  - task: {{type: classification}}
    dataset: {{name: {quoted["data"]}, type: {quoted["data"]}}}
    metrics:
    - {{type: {quoted["metric"]}, value: {test["metric"]:.6f}}}
---

# {_plain(ready.source.name)}: trained for {settings.metric}

| | |
|---|---|
| {settings.metric} on test rows | {test["metric"]:.4f} |
| {settings.metric} on validation rows | {metrics["validation"]:.4f} |
| rows (train / validation / test) | {rows["train"]} / {rows["validation"]} / {rows["test"]} |
| model | {_plain(settings.model)}, {metrics["parameters"]} parameters |
| recipe | {_plain(recipe.title)} |
| best weights from | stage {best["stage"] + 1} ({best["loss"]}), epoch {best["epoch"] + 1} |

{decision}{last_phase(metrics)}
Use it: `aimfor predict THIS_FOLDER NEW_DATA`. Everything about the run: `aimfor report THIS_FOLDER`.

## What was assumed or left out

{notes}"""


def last_phase(metrics: dict[str, Any]) -> str:
    """The sentence about the last phase, as a paragraph; nothing where there was none."""
    return f"\n{metrics['last_phase']['text']}\n" if metrics.get("last_phase") else ""


def _plain(text: str) -> str:
    """User text without line breaks or marks that Markdown or HTML would act on."""
    return "".join(" " if c in "\r\n|" else c for c in text).replace("<", "&lt;").replace("`", "'")
