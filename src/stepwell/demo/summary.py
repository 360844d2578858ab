"""The end of the demo: what happened, what it shows, and what to try next."""

from __future__ import annotations

from collections import Counter
from shlex import quote

from stepwell import Step
from stepwell.cli.explanations import write_explanation
from stepwell.cli.history import write_history
from stepwell.cli.output import Output, Span, of_state
from stepwell.cli.text import counted
from stepwell.cli.trees import tree_lines
from stepwell.demo.story import Story
from stepwell.demo.verdict import claims
from stepwell.model.redaction import shown_url

IMAGES_SHOWN = 3


def write_summary(output: Output, story: Story, url: str, seconds: float, program: str) -> bool:
    """Write it; returns whether every claim holds."""
    steps = {step.name: step for root in story.roots for step in story.of(root)}
    output.heading(f"{counted(len(steps), 'step')} in {seconds:.1f} s")
    for root in story.roots.values():
        top = story.app.tree(root)
        for line in tree_lines(top, IMAGES_SHOWN if top.step.name == "product images" else None):
            output.line(*line, cut=True)
    _write_counts(output, list(steps.values()))
    _write_retry(output, story, steps)
    _write_explanation(output, story, steps)
    output.heading("What the demo shows, checked against the database")
    verdicts = list(claims(story))
    for holds, claim in verdicts:
        output.line(("✓ " if holds else "✗ ", "green" if holds else "bold red"), claim)
    _write_next(output, url, steps, program)
    return all(holds for holds, _ in verdicts)


def _write_counts(output: Output, steps: list[Step]) -> None:
    output.heading("By state")
    spans: list[Span] = []
    for state, number in Counter(step.state for step in steps).most_common():
        spans += [", " if spans else "", of_state(state), f" {number}"]
    output.line(*spans)


def _write_retry(output: Output, story: Story, steps: dict[str, Step]) -> None:
    if (step := steps.get("fetch prices")) is not None:
        output.heading(f"History of step {step.id} ({step.name})")
        write_history(output, story.app.history(step))


def _write_explanation(output: Output, story: Story, steps: dict[str, Step]) -> None:
    if (step := steps.get("load the prices")) is not None:
        output.heading(f"Why is step {step.id} ({step.name}) not running?")
        write_explanation(output, story.app.explain(step), story.app.database.now())


def _write_next(output: Output, url: str, steps: dict[str, Step], program: str) -> None:
    output.heading("Try next (the database is kept)")
    commands = {
        "show": ("fetch prices", "a step in full"),
        "explain": ("load the prices", "why a step is not running"),
        "retry": ("read the file", "retry the failed step and what ended because of it"),
    }
    for command, (name, what) in commands.items():
        if name in steps:
            output.line((f"  # {what}", "bright_black"))
            output.line(f"  {program} --db {quote(shown_url(url))} {command} {steps[name].id}", whole=True)
