"""What is done by hand at the terminal is recorded with who did it and why."""

from __future__ import annotations

from pathlib import Path

from stepwell import Stepwell
from tests.unit.cli.support import finished

SHOP = """
from stepwell import Stepwell

app = Stepwell("{url}")
order = app.workflows().workflow("order")
order.gate("approval")
app.job(lambda: None, name="work")
app.cron("0 4 * * *", name="declared")(app.jobs.get("work"))
"""


def test_every_command_that_changes_something_leaves_one_row(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    (tmp_path / "shop.py").write_text(SHOP.format(url=url), encoding="utf-8")
    by = ("--who", "ann", "--why", "because")
    code = ("--app", "shop:app")
    commands = [
        (("enqueue", "work", *by), "enqueue"),
        (("workflows", "start", "order", "--initiator", "ann", "--reason", "because", *code), "start_workflow"),
        (("limits", "--queue", "default=3", *by), "set_limit"),
        (("limits", "--queue", "default=3", *by), None),
        (("pause", *by), "pause"),
        (("drain", *by), None),
        (("resume", *by), "resume"),
        (("pause", "--workflow", "1", *by), "pause_workflow"),
        (("resume", "--workflow", "1", *by), "resume_workflow"),
        (("schedules", "add", "nightly", "0 2 * * *", "work", *by, *code), "create_schedule"),
        (("schedules", "edit", "nightly", "--expression", "0 3 * * *", *by, *code), "edit_schedule"),
        (("schedules", "edit", "nightly", "--expression", "0 3 * * *", *by, *code), None),
        (("schedules", "disable", "nightly", *by), "disable_schedule"),
        (("schedules", "enable", "nightly", *by), "enable_schedule"),
        (("schedules", "run", "nightly", *by, *code), "run_schedule"),
        (("schedules", "delete", "nightly", "--force", *by), "delete_schedule"),
        (("cancel", "1", *by), "cancel"),
        (("retry", "1", *by), "retry"),
        (("prune", "--keep-days", "1", *by), None),
        (("cancel", "1", *by), "cancel"),
        (("dispatch", "--once"), None),
        (("prune", "--before", "2999-01-01T00:00:00Z", *by), "prune"),
    ]
    with Stepwell(url) as app:

        @app.job()
        def work() -> None: ...

        app.record_jobs()
        for arguments, kind in commands:
            newest = max((row.id for row in app.operations.newest()), default=0)
            done = finished(*arguments, cwd=tmp_path, url=url)
            assert done.returncode in (0, 1), done.stderr
            new = [(row.kind, row.actor, row.reason) for row in app.operations.newest() if row.id > newest]
            expected = [] if kind is None else [(kind, "operator:ann", "because")]
            assert new == expected, f"{' '.join(arguments)}: {done.stderr}"
