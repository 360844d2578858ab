"""Templates: everything that is shown is escaped, and every time, number and state is written in one way."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from jinja2.runtime import Context
from markupsafe import Markup, escape

from stepwell.look import palette
from stepwell.look.words import counted, reason_words, span
from stepwell.model.actors import person_of
from stepwell.model.redaction import redacted
from stepwell.model.states import State
from stepwell.model.workflow_states import WorkflowState

MOST_OF_EACH: Final = 200  # elements of a list or an object that are shown
FOLDER: Final = Path(__file__).parents[1] / "templates"


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=True,  # who changes a template reloads the page
        finalize=without_secrets,
    )
    made.filters |= {
        "age": lambda moment: time_element(moment, "age"),
        "since": lambda moment: time_element(moment, "since"),
        "moment": lambda moment: time_element(moment, "moment"),
        "full": lambda moment: time_element(moment, "full"),
        "span": lambda seconds: "" if seconds is None else span(seconds),
        "n": lambda number: f"{number:,}",
        "counted": counted,
        "pretty": pretty,
        "editable": editable,
        "millis": lambda moment: int(moment.timestamp() * 1000),
        "reason": reason_words,
        "shorten": shorten,
        "person": person_of,
    }
    made.globals |= {"look_of": look_of, "look_of_step": look_of_step, "palette": palette, "State": State}
    return made


def without_secrets(value: Any) -> Any:
    """Every text that is shown passes here; what draws or formats itself has done so before."""
    return redacted(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def time_element(moment: datetime | None, kind: str) -> Markup:
    """A time in UTC; a script shows it in the reader's zone, or as an age. Hover: with microseconds."""
    if moment is None:
        return Markup("")
    utc = moment.astimezone(UTC)
    return Markup('<time datetime="{}" data-kind="{}" title="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        kind,
        f"{utc:%Y-%m-%d %H:%M:%S.%f} UTC",
        f"{utc:%Y-%m-%d %H:%M:%S} UTC",
    )


def look_of(state: State | WorkflowState | str) -> palette.Look:
    """The look of a state of a step, of a workflow or of an execution."""
    for table, kind in ((palette.OF_STATE, State), (palette.OF_WORKFLOW_STATE, WorkflowState)):
        try:
            return table[kind(state)]  # type: ignore[index]
        except ValueError:
            continue
    return palette.OF_OUTCOME.get(str(state), palette.PENDING)


def look_of_step(step: Any) -> palette.Look:
    """The look of a step in a list: one that is throttled has its own."""
    return palette.of_step(step.state, is_throttled=step.is_throttled)


@jinja2.pass_context
def pretty(context: Context, value: Any) -> str:
    """A stored value as JSON over several lines, without its secrets, and not all of a long list."""
    value = context["asked"].app.redaction.value(first_of_each(value))
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@jinja2.pass_context
def editable(context: Context, value: Any) -> Markup:
    """The same for a form, which sends it back: whole, and valid JSON."""
    value = context["asked"].app.redaction.value(value)
    return escape(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def first_of_each(value: Any) -> Any:
    """The beginning of every long list and object: the context of a map over 100,000 elements takes 0.1 s to write.

    >>> first_of_each({"items": list(range(1000))})["items"][-2:]
    [199, '… 800 more']
    """
    if isinstance(value, dict):
        kept = {key: first_of_each(each) for key, each in islice(value.items(), MOST_OF_EACH)}
        return kept | ({"…": f"{len(value) - MOST_OF_EACH:,} more"} if len(value) > MOST_OF_EACH else {})
    if isinstance(value, list | tuple):
        kept_items = [first_of_each(each) for each in value[:MOST_OF_EACH]]
        return [*kept_items, f"… {len(value) - MOST_OF_EACH:,} more"] if len(value) > MOST_OF_EACH else kept_items
    return value


def shorten(text: object, letters: int) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= letters else f"{line[: letters - 1].rstrip()}…"


def with_query(path: str, query: list[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
