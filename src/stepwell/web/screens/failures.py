"""Failures by cause: how many causes there are, and what stands behind each."""

from __future__ import annotations

from typing import Final

from stepwell.look.words import counted
from stepwell.model.errors import StepNotFound
from stepwell.web.screens.asked import ONLY_DATA, Asked, View
from stepwell.web.screens.commands import command

CAUSES: Final = 100
STEPS: Final = 50


def failures(asked: Asked) -> View:
    causes = asked.app.figures.causes(limit=CAUSES)
    return View(
        template="failures.html",
        holds=ONLY_DATA,
        title=f"✗ {counted(len(causes), 'cause')}" if causes else "Failures",
        cli=command("steps", state=["Failed", "Stopped"]),
        screen="Failures",
        data={"causes": causes},
    )


def failure(asked: Asked) -> View:
    fingerprint = asked.params["fingerprint"]
    cause = asked.app.figures.cause(fingerprint)
    if cause is None:
        raise StepNotFound(f"no step has failed with the cause {fingerprint}, or all of them were retried")
    before = asked.number("before")
    page = asked.app.lists.steps(limit=STEPS, before=before, fingerprint=fingerprint, state=["Failed", "Stopped"])
    newest = asked.app.step(cause.newest_step)
    return View(
        template="failure.html",
        holds=ONLY_DATA,
        title=f"✗ {cause.action} ×{cause.steps:,}",
        cli=command("steps", fingerprint=fingerprint),
        screen="Failures",
        data={
            "cause": cause,
            "newest": newest,
            "rows": page.rows,
            "older": asked.here(before=page.next) if page.next else None,
        },
    )
