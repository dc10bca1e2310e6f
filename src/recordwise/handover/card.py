"""The model card that goes with a student, in the layout that Hugging Face reads."""

from __future__ import annotations

import json
from collections.abc import Sequence

from recordwise.handover.forms import Forms
from recordwise.published import Published
from recordwise.report import Summary
from recordwise.students.weights import WEIGHTS, rules_in_words, weights_of

TASKS = {"text": "text-classification", "images": "image-classification"}
MOST_NAMED = 20  # classes


def model_card(name: str, model: Published, forms: Forms, summary: Summary | None = None) -> str:
    """The card: what the model is, what it promises, what was public, how to use it.

    Args:
      forms: The student for those who do not have Recordwise.
      summary: Of the run; None where the student was saved from Python.
    """
    classes = [str(one) for one in model.classes_]
    named = ", ".join(classes[:MOST_NAMED]) + (", …" if len(classes) > MOST_NAMED else "")
    lines = [
        "---",
        "library_name: recordwise",
        f"pipeline_tag: {TASKS.get(model.schema.kind, 'tabular-classification')}",
        "tags: [differential-privacy, knowledge-distillation, recordwise]",
        "---",
        f"# {name}",
        "",
        f"A classifier of {len(classes)} classes ({named}), taught by private records that voted on public samples.",
        "",
        "## What it promises",
        "",
        str(model.guarantee_),
        "",
        model.guarantee_.as_odds(),
        "",
        *_decides(model, classes),
        "## How right it is",
        "",
        *(["It was not scored here."] if summary is None else [accuracy(summary), "", summary.verdict["text"]]),
        "",
        "## What is public",
        "",
        *([] if summary is None else _pool(summary)),
        f"- How a sample is read (the schema), SHA-256 `{model.schema.digest}`:",
        "",
        "```json",
        json.dumps(model.schema.as_dict(), indent=1, ensure_ascii=False),
        "```",
        "",
        "- The list of classes"
        + (
            "."
            if summary is None or summary.classes_declared
            else ", which was read off the private labels and is not protected."
        ),
        "- Everything in this folder. The private records are not in it, nor where they lie.",
        "",
        "## How to use it",
        "",
        "With Recordwise: `recordwise predict THIS_FOLDER new.csv`, or `recordwise.load(folder).predict(samples)`.",
        "",
        *_without_recordwise(forms),
        "",
        "Reading these files runs no code that they bring.",
        *([] if summary is None else _fingerprints(summary)),
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


def _decides(model: Published, classes: Sequence[str]) -> list[str]:
    """How it was told to choose between classes, where it was."""
    rules = rules_in_words(model.student, classes)
    lines = [f"- {name.capitalize()}: {text}." for name, text in rules.items()]
    if WEIGHTS in rules:
        lines[0] += (
            " Its probabilities are with these weights, and so is the confidence that `recordwise predict` gives."
            if weights_of(model.student) is None
            else " Its probabilities are moved by them; the confidence that `recordwise predict` gives is not."
        )
    return ["## How it decides", "", *lines, ""] if lines else []


def _pool(summary: Summary) -> list[str]:
    pool = f"- The pool: {summary.pool_size:,} samples, SHA-256 `{summary.hashes['pool']}`."
    return [pool, f"- The encoder: {summary.settled['encoder']}."]


def _without_recordwise(forms: Forms) -> list[str]:
    if not forms.files:
        return ["There is no file here for those without it."]
    example = forms.files["use.py"].decode().rstrip()
    without = f"Without it, with {forms.needs} (`use.py`):"
    return [*forms.left_out, *[""] * bool(forms.left_out), without, "", "```python", example, "```"]


def _fingerprints(summary: Summary) -> list[str]:
    return [
        "",
        "## Fingerprints",
        "",
        *(f"- {name}: `{value}`" for name, value in summary.hashes.items()),
        *(f"- {name} {version}" for name, version in summary.versions.items()),
        f"- made {summary.created}",
    ]
