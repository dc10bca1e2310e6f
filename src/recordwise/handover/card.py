"""The model card that goes with a student, in the layout that Hugging Face reads."""

from __future__ import annotations

import json

from recordwise.handover.forms import Forms
from recordwise.report import Summary

TASKS = {"text": "text-classification", "images": "image-classification"}


def model_card(summary: Summary, forms: Forms) -> str:
    """The card: what the model is, what it promises, what was public, how to use it.

    Args:
      forms: The student for those who do not have Recordwise.
    """
    lines = [
        "---",
        "library_name: recordwise",
        f"pipeline_tag: {TASKS.get(summary.reading['kind'], 'tabular-classification')}",
        "tags: [differential-privacy, knowledge-distillation, recordwise]",
        "---",
        f"# {summary.name}",
        "",
        f"A classifier of {len(summary.classes)} classes ({', '.join(summary.classes[:20])}"
        f"{', …' if len(summary.classes) > 20 else ''}), taught by private records that voted on public samples.",
        "",
        "## What it promises",
        "",
        summary.statement,
        "",
        summary.odds,
        "",
        "## How right it is",
        "",
        accuracy(summary),
        "",
        summary.verdict["text"],
        "",
        "## What is public",
        "",
        f"- The pool: {summary.pool_size:,} samples, SHA-256 `{summary.hashes['pool']}`.",
        f"- How a sample is read (the schema), SHA-256 `{summary.hashes['schema']}`:",
        "",
        "```json",
        json.dumps(summary.reading, indent=1, ensure_ascii=False),
        "```",
        "",
        "- The list of classes"
        + ("." if summary.classes_declared else ", which was read off the private labels and is not protected."),
        "- Everything in this folder. The private records are not in it, nor where they lie.",
        "",
        "## How to use it",
        "",
        "With Recordwise: `recordwise predict THIS_FOLDER new.csv`, or `recordwise.load(folder).predict(samples)`.",
        "",
        *_without_recordwise(forms),
        "",
        "Reading these files runs no code that they bring.",
        "",
        "## Fingerprints",
        "",
        *(f"- {name}: `{value}`" for name, value in summary.hashes.items()),
        *(f"- {name} {version}" for name, version in summary.versions.items()),
        f"- made {summary.created}",
    ]
    return "\n".join(lines) + "\n"


def accuracy(summary: Summary) -> str:
    scores = summary.scores
    if summary.test_accuracy is None or scores is None:
        return "It was not scored: the run had no test samples."
    low, high = scores["interval"]
    return (
        f"{100 * summary.test_accuracy:.1f} % of {scores['samples']:,} test samples, which were public or at least not "
        f"protected here (95 % interval {100 * low:.1f} to {100 * high:.1f} %); naming the commonest class everywhere "
        f"gets {100 * scores['majority']:.1f} %."
    )


def _without_recordwise(forms: Forms) -> list[str]:
    if not forms.files:
        return forms.left_out
    return [
        f"Without it, with {forms.needs} (`use.py`):",
        "",
        "```python",
        forms.files["use.py"].decode().rstrip(),
        "```",
    ]
