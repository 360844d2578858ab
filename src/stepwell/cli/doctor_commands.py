"""Checking a live database: `doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.output import Cell, Output
from stepwell.cli.overview_commands import breaker_line
from stepwell.cli.settings import non_default_settings, retention_options
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import clean, counted, exact, shorten, to_json

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.operate.retention import RetentionStatus
    from stepwell.schedule.alarms import Missed
    from stepwell.store.engine.reading import LaneCount, SetAside
    from stepwell.store.lock_holder import LockHolder

_PROBLEMS = ("suspended_writer", "violations", "ledger_gaps", "repairs", "unserved", "overdue")
_KINDS = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


@click.command()
@click.option("--invariants", is_flag=True, help="Only check invariants (read-only).")
@click.option("--sweep", is_flag=True, help="Only check bookkeeping, and repair it.")
@database_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, invariants: bool, sweep: bool, as_json: bool) -> None:
    """Check invariants, bookkeeping and workers; show versions, breaker and settings that are not the default.

    Exit code 1 if a problem was found. A violated invariant or a repair is a bug in Stepwell: please report it.
    """
    whole = not (invariants or sweep)
    output = Output()
    found: dict[str, Any] = {}
    with ctx.obj.open() as app, output.busy("checking"):
        if whole:
            found |= _environment(app, ctx.obj)
        if whole or invariants:
            found["violations"] = app.check_invariants()
            found["ledger_gaps"] = app.schedules.check_ledger()
        if (whole or sweep) and not found.get("suspended_writer"):
            found["repairs"] = app.sweep()
    healthy = not any(found.get(problem) for problem in _PROBLEMS)
    healthy = healthy and not ("retention" in found and found["retention"].is_behind)
    if as_json:
        click.echo(to_json({"healthy": healthy, **found}))
    else:
        _write(output, found)
    ctx.exit(0 if healthy else 1)


def _environment(app: Stepwell, target: Target) -> dict[str, Any]:
    from stepwell import __version__
    from stepwell.store.migrate import applied_version, known_migrations

    database = app.reader.database_version()
    listed = app.schedules.list()
    return {
        "stepwell": __version__,
        "python": sys.version.split()[0],
        "database": f"{_KINDS[app.database.dialect]} {database}",
        "url": str(target),
        "schema": {"version": applied_version(app.database), "known": len(known_migrations(app.database.dialect))},
        "suspended_writer": app.database.suspended_writer(),
        "breaker": asdict(app.breaker.state()),
        "at": app.database.now(),
        "workers": len(app.stats().workers),
        "unserved": app.reader.unserved_lanes(),
        "set_aside": app.reader.set_aside(),
        "schedules": {"all": len(listed), "disabled": sum(not each.definition.enabled for each in listed)},
        "overdue": app.schedules.overdue(),
        "retention": _retention(app, target),
        "settings": non_default_settings(target.config),
    }


def _retention(app: Stepwell, target: Target) -> RetentionStatus:
    app.retention.options = retention_options(target.config, app.retention_options)
    return app.retention.status()


def _write(output: Output, found: dict[str, Any]) -> None:
    if "database" in found:
        from stepwell.operate.breaker import BreakerState

        output.fields(
            [
                ("stepwell", f"{found['stepwell']} on Python {found['python']}"),
                ("database", f"{found['database']}, {found['url']}"),
                ("schema", f"version {found['schema']['version']} of {found['schema']['known']}"),
                *_suspended_writer(found["suspended_writer"]),
                ("dispatching", breaker_line(BreakerState(**found["breaker"]), found["at"])),
                ("live workers", str(found["workers"])),
                ("unserved work", _unserved(found["unserved"])),
                *_set_aside(found["set_aside"]),
                *_schedules(found["schedules"], found["overdue"]),
                ("retention", (str(found["retention"]), "bold red" if found["retention"].is_behind else "")),
                *_settings(found["settings"]),
            ]
        )
    if "violations" in found:
        _write_findings(output, "invariants", [str(violation) for violation in found["violations"]], "OK")
    if "ledger_gaps" in found:
        _write_findings(output, "slot ledger", [str(gap) for gap in found["ledger_gaps"]], "OK, complete")
    if "repairs" in found:
        repairs = [f"step {finding.step_id}: {finding.finding}" for finding in found["repairs"]]
        _write_findings(output, "bookkeeping", repairs, "OK, no repairs needed")


def _suspended_writer(holder: LockHolder | None) -> list[tuple[str, Cell]]:
    if holder is None:
        return []
    text = f"nothing can be written, so bookkeeping was not checked: {clean(str(holder))}"
    return [("write lock", (text, "bold red"))]


def _settings(settings: list[dict[str, str]]) -> list[tuple[str, Cell]]:
    lines = [f"{row['setting']} = {row['value']} ({row['origin']})" for row in settings] or ["all at their defaults"]
    return [("settings" if place == 0 else "", line) for place, line in enumerate(lines)]


def _unserved(lanes: list[LaneCount]) -> Cell:
    if not lanes:
        return ("none", "green")
    total = sum(lane.steps for lane in lanes)
    where = ", ".join(f"{lane.steps:,} × {lane.action} in {lane.queue}" for lane in lanes[:5])
    more = f" and {counted(len(lanes) - 5, 'other kind')}" if len(lanes) > 5 else ""
    return (f"{counted(total, 'eligible step')} that no live worker serves: {where}{more}", "bold red")


def _set_aside(rows: list[SetAside]) -> list[tuple[str, Cell]]:
    """Not a problem of the system: whoever wrote these rows should know, and can skip the steps afterwards."""
    if not rows:
        return [("set aside", ("none", "green"))]
    lines = [f"step {row.id} {row.action} ({row.reason}): {shorten(row.error_message or '', 200)}" for row in rows[:10]]
    if len(rows) > 10:
        lines.append(f"and {len(rows) - 10:,} more (--json prints them)")
    return [("set aside" if place == 0 else "", (line, "yellow")) for place, line in enumerate(lines)]


def _schedules(counts: dict[str, int], overdue: list[Missed]) -> list[tuple[str, Cell]]:
    """How many there are, and those without a success within their `expect_within`."""
    lines: list[Cell] = [f"{counts['all']:,} ({counts['disabled']:,} disabled)" if counts["all"] else "none"]
    for each in overdue[:10]:
        text = f"{each.schedule}: no success since its slot {exact(each.first_slot)}; expected within"
        lines.append((f"{clean(text)} {each.expect_within:g} s", "bold red"))
    if len(overdue) > 10:
        lines.append((f"and {len(overdue) - 10:,} more (--json prints them)", "bold red"))
    return [("schedules" if place == 0 else "", line) for place, line in enumerate(lines)]


def _write_findings(output: Output, what: str, findings: list[str], when_none: str) -> None:
    if not findings:
        output.fields([(what.ljust(13), (when_none, "green"))])
        return
    output.fields([(what.ljust(13), (counted(len(findings), "finding"), "bold red"))])
    for finding in findings[:50]:
        output.line(f"  {finding}")
    if len(findings) > 50:
        output.line(f"  … and {len(findings) - 50:,} more (--json prints all)")
