"""The end of the demo: what happened, what it shows, and where to go from here."""

from __future__ import annotations

from collections import Counter
from shlex import quote

from stepwell import Step
from stepwell.cli.history import write_history
from stepwell.cli.paper import Paper, Span, of_state
from stepwell.cli.text import counted, without_password
from stepwell.cli.trees import tree_lines
from stepwell.demo.story import Story
from stepwell.demo.verdict import claims

IMAGES_SHOWN = 3


def write_summary(paper: Paper, story: Story, url: str, seconds: float, program: str) -> bool:
    """Write it all; returns whether every claim of the story holds."""
    steps = {step.name: step for root in story.roots for step in story.of(root)}
    paper.heading(f"{counted(len(steps), 'step')} in {seconds:.1f} s: this is how they ended")
    for root in story.roots.values():
        top = story.app.tree(root)
        for line in tree_lines(top, IMAGES_SHOWN if top.step.name == "product images" else None):
            paper.line(*line, cut=True)
    _write_counts(paper, list(steps.values()))
    _write_retry(paper, story, steps)
    _write_explanation(paper, story, steps)
    paper.heading("What you have seen, checked on what really happened")
    verdicts = list(claims(story))
    for holds, claim in verdicts:
        paper.line(("✓ " if holds else "✗ ", "green" if holds else "bold red"), claim)
    _write_next(paper, url, steps, program)
    return all(holds for holds, _ in verdicts)


def _write_counts(paper: Paper, steps: list[Step]) -> None:
    paper.heading("By state")
    spans: list[Span] = []
    for state, number in Counter(step.state for step in steps).most_common():
        spans += [", " if spans else "", of_state(state), f" {number}"]
    paper.line(*spans)


def _write_retry(paper: Paper, story: Story, steps: dict[str, Step]) -> None:
    if (step := steps.get("fetch prices")) is not None:
        paper.heading(f"Nothing is forgotten: the history of step {step.id}, {step.name}")
        write_history(paper, story.app.history(step))


def _write_explanation(paper: Paper, story: Story, steps: dict[str, Step]) -> None:
    if (step := steps.get("load the prices")) is not None:
        paper.heading(f"Why does step {step.id}, {step.name}, not run?")
        paper.line(story.app.explain(step).summary)


def _write_next(paper: Paper, url: str, steps: dict[str, Step], program: str) -> None:
    paper.heading("Go on from here: the database is kept")
    commands = {
        "show": ("fetch prices", "all of a step"),
        "explain": ("load the prices", "why a step is where it is"),
        "retry": ("read the file", "bring the failed step back, with what went with it"),
    }
    for command, (name, what) in commands.items():
        if name in steps:
            paper.line((f"  # {what}", "bright_black"))
            paper.line(f"  {program} --db {quote(without_password(url))} {command} {steps[name].id}", whole=True)
