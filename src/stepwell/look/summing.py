"""Adding up counters: by state, host, action and group. No I/O."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Collection, Mapping, Sequence

from stepwell.look.figure_types import ClassFigures, GroupFigures, HostFigures, Totals
from stepwell.model.states import State
from stepwell.store.engine.counters import Counter
from stepwell.store.engine.reading import GroupRow, KnownWorker, Lane


def totals_of(counters: Sequence[Counter]) -> Totals:
    states: Sums[State] = Sums()
    parts: Sums[str] = Sums()
    for row in counters:
        states[row.state] += row.number
        parts.update(_parts(row))
    return Totals(
        states={str(state): states[state] for state in State},
        child_pending=parts["child_pending"],
        child_running=parts["child_running"],
        throttled=parts["throttled"],
    )


def by_action(
    counters: Sequence[Counter], host: str | None, lanes: Collection[tuple[str, str]] | None
) -> list[ClassFigures]:
    """By action; with a host, what runs there and what is in these lanes."""
    found: dict[str, Sums[str]] = {}
    for row in counters:
        if row.state.is_terminal:
            continue
        if row.state is State.RUNNING:
            counts = host is None or row.hostname == host
        else:
            counts = lanes is None or (row.queue, row.action) in lanes
        if counts:
            found.setdefault(row.action, Sums()).update(_parts(row))
    return [
        ClassFigures(
            action=action,
            running=sums["Running"],
            child_running=sums["child_running"],
            dispatched=sums["Dispatched"],
            pending=sums["Pending"],
            throttled=sums["throttled"],
        )
        for action, sums in sorted(found.items())
    ]


def by_group(
    counters: Sequence[Counter], running: Mapping[str | None, int], groups: Sequence[GroupRow]
) -> list[GroupFigures]:
    found: dict[str, Sums[str]] = {row.group: Sums(Running=running.get(row.group, 0)) for row in groups}
    for row in counters:
        if row.state in (State.PENDING, State.DISPATCHED):
            found.setdefault(row.group, Sums()).update(_parts(row))
    return [
        GroupFigures(group=group, pending=sums["Pending"], dispatched=sums["Dispatched"], running=sums["Running"])
        for group, sums in found.items()
    ]


def by_host(counters: Sequence[Counter], workers: Sequence[KnownWorker], lanes: Sequence[Lane]) -> list[HostFigures]:
    on_host: dict[str, Sums[str]] = {}
    in_lane: dict[tuple[str, str], Sums[str]] = {}
    for row in counters:
        if row.state is State.RUNNING:
            on_host.setdefault(row.hostname, Sums()).update(_parts(row))
        elif not row.state.is_terminal:
            in_lane.setdefault((row.queue, row.action), Sums()).update(_parts(row))
    return [
        _of_host(host, on_host.get(host, Sums()), in_lane, [row for row in workers if row.hostname == host], lanes)
        for host in sorted({*on_host, *(row.hostname for row in workers)})
    ]


def _of_host(
    host: str,
    on_host: Sums[str],
    in_lane: dict[tuple[str, str], Sums[str]],
    workers: Sequence[KnownWorker],
    lanes: Sequence[Lane],
) -> HostFigures:
    alive = {row.id for row in workers if row.alive}
    could_run: Sums[str] = Sums()
    for lane in {(row.queue, row.action) for row in lanes if row.worker_id in alive}:
        could_run.update(in_lane.get(lane, Sums()))
    return HostFigures(
        host=host,
        alive=bool(alive),
        workers=len(alive),
        slots=sum(row.slots for row in workers if row.alive),
        slots_in_use=sum(row.running for row in workers if row.alive),
        last_seen=max((row.heartbeat_at for row in workers), default=None),
        running=on_host["Running"],
        child_running=on_host["child_running"],
        dispatched=could_run["Dispatched"],
        pending=could_run["Pending"],
        throttled=could_run["throttled"],
    )


def _parts(row: Counter) -> dict[str, int]:
    """Under which names a counter is added up."""
    parts = {str(row.state): row.number}
    if row.child and row.state is State.PENDING:
        parts["child_pending"] = row.number
    if row.child and row.state is State.RUNNING:
        parts["child_running"] = row.number
    if row.throttled:
        parts["throttled"] = row.number
    return parts
