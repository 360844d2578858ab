"""Whether the system does its work: not merely whether this process lives.

Each check has a name, a verdict and a sentence. `status` is red if one of them is; the answer says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepwell.app import Stepwell
from stepwell.model.errors import StepwellError
from stepwell.operate.reaper import STALLED_SECONDS
from stepwell.web.api.errors import problem_of
from stepwell.web.problems import HttpProblem
from stepwell.web.site import Site

Verdict: TypeAlias = Literal["ok", "warn", "red"]

# A group with work and a free worker moves on within a second.
STALLED: Final = timedelta(seconds=STALLED_SECONDS)
# After a deploy of an hour without a planned end, dispatching should be on again.
FORGOTTEN: Final = timedelta(hours=1)


class Check(msgspec.Struct, frozen=True):
    name: str
    verdict: Verdict
    message: str


class Health(msgspec.Struct, frozen=True):
    status: Verdict
    at: datetime
    checks: list[Check]


def health(app: Stepwell) -> Health:
    """Every check, whatever the others say."""
    now = app.database.now()
    checks = [check for one in CHECKS for check in _careful(one, app, now)]
    verdicts = {check.verdict for check in checks}
    status: Verdict = "red" if "red" in verdicts else "warn" if "warn" in verdicts else "ok"
    return Health(status, now, checks)


def _careful(check: Callable[[Stepwell, datetime], Iterator[Check]], app: Stepwell, now: datetime) -> list[Check]:
    try:
        return list(check(app, now))
    except StepwellError as error:
        return [Check(check.__name__.strip("_"), "red", f"cannot be checked: {problem_of(error).detail}")]


def _database(app: Stepwell, now: datetime) -> Iterator[Check]:
    if writer := app.database.suspended_writer():
        yield Check("database", "red", f"nothing can be written: {writer}")


def _breaker(app: Stepwell, now: datetime) -> Iterator[Check]:
    state = app.breaker.state()
    if state.dispatching:
        yield Check("breaker", "ok", "steps are dispatched")
        return
    since = "" if state.changed_at is None else f" since {state.changed_at:%Y-%m-%d %H:%M:%S} UTC"
    end = state.planned_end or (state.changed_at and state.changed_at + FORGOTTEN)
    is_late = end is None or now >= end
    planned = "" if state.planned_end is None else f", planned until {state.planned_end:%Y-%m-%d %H:%M:%S} UTC"
    by = f" by {state.changed_by}" if state.changed_by else ""
    yield Check("breaker", "red" if is_late else "warn", f"dispatching is off{by}{since}{planned}: `stepwell resume`")


def _progress(app: Stepwell, now: datetime) -> Iterator[Check]:
    """Work that could run, and has waited for longer than any tick or claim takes."""
    if not app.breaker.state().dispatching:
        return
    oldest = app.figures.oldest_ready()
    if oldest is None or now - oldest < STALLED:
        yield Check("progress", "ok", "no ready step has waited for longer than a minute")
        return
    last = max((row.last_tick_completed for row in app.groups() if row.last_tick_completed), default=None)
    ticked = "no tick has changed anything yet" if last is None else f"the last useful tick was at {last:%H:%M:%S} UTC"
    is_served = any(worker.alive for worker in app.workers())
    verdict: Verdict = "red" if not is_served or last is None or now - last > STALLED else "warn"
    yield Check("progress", verdict, f"a step has been ready since {oldest:%Y-%m-%d %H:%M:%S} UTC; {ticked}")


def _workers(app: Stepwell, now: datetime) -> Iterator[Check]:
    unserved = app.reader.unserved_lanes()
    if not unserved:
        yield Check("workers", "ok", "all waiting work has a live worker")
        return
    total = sum(lane.steps for lane in unserved)
    first = ", ".join(f"{lane.action} in {lane.queue}" for lane in unserved[:3])
    yield Check("workers", "red", f"{total:,} ready steps have no live worker: {first}")


def _schedules(app: Stepwell, now: datetime) -> Iterator[Check]:
    grace = timedelta(seconds=2 * app.scheduler_options.poll_interval_seconds)
    for schedule in app.schedules.list():
        due = schedule.next_slot
        if schedule.definition.enabled and due is not None and now - due > grace:
            yield Check(
                "schedules", "red", f"{schedule.name}: slot {due.isoformat()} is not decided: is a scheduler running?"
            )
    for missed in app.schedules.overdue():
        late = f"has not succeeded within {missed.expect_within:g} s"
        yield Check("schedules", "red", f"{missed.schedule}: slot {missed.slot.isoformat()} {late}")


def _groups(app: Stepwell, now: datetime) -> Iterator[Check]:
    for row in app.groups():
        if row.lock_owner is not None and row.lock_deadline is not None and now - row.lock_deadline > STALLED:
            yield Check(
                "groups", "red", f"group {row.group}: the lock of {row.lock_owner} expired: is a dispatcher running?"
            )


def _counters(app: Stepwell, now: datetime) -> Iterator[Check]:
    """What can be seen without reading all steps; `doctor` compares every counter with the rows."""
    found = app.figures.dispatched()
    if found.is_wrong:
        differ = f"{found.counted:,} dispatched steps, but {found.on_the_agenda:,} on the agenda"
        what = "one is negative" if found.is_negative else differ
        yield Check("counters", "red", f"the totals are wrong ({what}): `stepwell doctor` repairs and reports it")


CHECKS: Final = (_database, _breaker, _progress, _workers, _schedules, _groups, _counters)


def health_routes(site: Site) -> list[BaseRoute]:
    """Relative to `/health`."""

    async def live(request: Request) -> Response:
        return _json({"status": "ok"})

    async def ready(request: Request) -> Response:
        try:
            await site.read(site.app.breaker.state)
        except StepwellError as error:
            return _json({"status": "unavailable", "detail": problem_of(error).detail}, 503)
        return _json({"status": "ok"})

    async def status(request: Request) -> Response:
        try:
            found = await site.read(health, site.app)
        except StepwellError as error:
            problem = problem_of(error)
            raise HttpProblem(problem.status, problem.detail) from error
        return _json(found, 503 if found.status == "red" else 200)

    return [
        Route("/live", live, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/status", status, methods=["GET"]),
    ]


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
