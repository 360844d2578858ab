"""`stepwell schedules …`: every command, what it prints for people and as JSON, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell import Stepwell
from tests.unit.cli.support import ask, plain_sql, run

pytestmark = pytest.mark.usefixtures("app")
WIDE = {"COLUMNS": "200"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def app(url: str) -> Iterator[Stepwell]:
    with Stepwell(url) as app:

        @app.job()
        def report(day: str = "today") -> None: ...

        app.record_jobs()
        yield app


def add(url: str, name: str = "nightly", expression: str = "30 2 * * *", *options: str) -> None:
    run(url, "schedules", "add", name, expression, "report", "--who", "ann", *options)


def test_without_schedules_the_list_says_how_to_add_one(url: str) -> None:
    assert "stepwell schedules add" in run(url, "schedules", "list").stdout
    assert ask(url, "schedules", "list") == []


def test_add_says_when_it_fires_and_its_first_slot(url: str) -> None:
    shown = run(url, "schedules", "add", "nightly", "30 2 * * MON-FRI", "report", "--tz", "Europe/Berlin").stdout
    assert "Added nightly: at 02:30 on weekdays, Europe/Berlin." in shown
    assert "02:30 Europe/Berlin" in shown
    (listed,) = ask(url, "schedules", "list")
    assert (listed["name"], listed["definition"]["zone"]) == ("nightly", "Europe/Berlin")
    assert "Europe/Berlin" in run(url, "schedules", "list").stdout


def test_add_reports_everything_that_is_wrong_in_one_line(url: str) -> None:
    failed = run(url, "schedules", "add", "bad", "61 * * * *", "repot", code=1)
    assert all(word in failed.stderr for word in ("61", "did you mean report?", "nothing was written"))
    assert failed.stderr.count("\n") == 1


def test_show_has_the_definition_the_slots_and_the_changes(app: Stepwell, url: str) -> None:
    add(url, "nightly", "30 2 * * *", "--max-retry", "5", "--why", "clean up")
    run(url, "schedules", "run", "nightly", "--who", "bob", "--why", "now")
    shown = run(url, "schedules", "show", "nightly").stdout
    for text in ("at 02:30 every day", "max_retry = 5", "created by operator:ann (clean up)", "manual by operator:bob"):
        assert text in shown
    document = ask(url, "schedules", "show", "nightly")
    assert sorted(document) == ["changes", "executions", "next", "schedule", "slots"]
    assert len(document["next"]) == 5


def test_edit_shows_the_next_five_slots_before_and_after_and_a_preview_changes_nothing(url: str) -> None:
    add(url)
    preview = run(url, "schedules", "edit", "nightly", "--expression", "0 3 * * *", "--preview").stdout
    assert preview.startswith("Would change expression of nightly.")
    assert len(preview.splitlines()) == 7
    assert ask(url, "schedules", "list")[0]["definition"]["expression"] == "30 2 * * *"
    done = ask(url, "schedules", "edit", "nightly", "--expression", "0 3 * * *")
    assert (done["changed"], len(done["before"]), len(done["after"])) == (["expression"], 5, 5)
    assert "Its slots stay the same" in run(url, "schedules", "edit", "nightly", "--max-retry", "1").stdout
    assert "already has these settings" in run(url, "schedules", "edit", "nightly", "--max-retry", "1").stdout
    assert "no setting was given" in run(url, "schedules", "edit", "nightly").stdout


def test_an_edit_shows_the_slots_before_and_after_each_in_its_own_zone(url: str) -> None:
    add(url)
    preview = run(url, "schedules", "edit", "nightly", "--tz", "Asia/Tokyo", "--preview", env=WIDE).stdout
    line = next(line for line in preview.splitlines() if "02:30" in line)
    assert re.findall(r"02:30 ([A-Z]\w+(?:/\w+)?)", line) == ["UTC", "Asia/Tokyo"]


def test_edit_reset_returns_overridden_fields_to_the_code(url: str) -> None:
    with Stepwell(url, name="shop") as coded:

        @coded.cron("@daily")
        def tidy() -> None: ...

        coded.record_jobs()
        coded.schedules.reconcile()
    run(url, "schedules", "edit", "tidy", "--max-retry", "9", "--who", "bob", "--why", "flaky")
    assert "max_retry by operator:bob (flaky)" in run(url, "schedules", "show", "tidy").stdout
    run(url, "schedules", "edit", "tidy", "--reset", "max_retry")
    assert ask(url, "schedules", "show", "tidy")["schedule"]["overrides"] == {}
    assert "unknown setting" in run(url, "schedules", "edit", "tidy", "--reset", "max_retri", code=1).stderr
    assert "declared by the code of shop" in run(url, "schedules", "delete", "tidy", code=1).stderr


def test_disable_and_enable(url: str) -> None:
    add(url)
    run(url, "schedules", "disable", "nightly", "--who", "bob", "--why", "holiday")
    assert "disabled by operator:bob: holiday" in run(url, "schedules", "list", env=WIDE).stdout
    assert "if it were enabled" in run(url, "schedules", "next", "nightly").stdout
    assert "Its next slot is" in run(url, "schedules", "enable", "nightly").stdout
    assert ask(url, "schedules", "disable", "nightly")["definition"]["enabled"] is False


def test_next_shows_as_many_as_are_asked_for(url: str) -> None:
    add(url)
    assert len(run(url, "schedules", "next", "nightly").stdout.splitlines()) == 10
    assert len(ask(url, "schedules", "next", "nightly", "-n", "3")) == 3


def test_run_names_the_step_to_follow(url: str) -> None:
    add(url)
    assert "`stepwell show 1` follows it" in run(url, "schedules", "run", "nightly").stdout
    made = ask(url, "schedules", "run", "nightly")
    assert (made["kind"], made["slot"], made["status"]) == ("manual", None, "PENDING")


def test_backfill_previews_and_then_runs(url: str) -> None:
    add(url, "nightly", "30 2 * * *", "--tz", "Europe/Berlin")
    preview = run(url, "schedules", "backfill", "nightly", "2026-01-01", "2026-01-20", "--preview").stdout
    assert preview.startswith("19 slots would run:\n  2026-01-01 02:30 Europe/Berlin (01:30 UTC)")
    assert "… and 9 more" in preview
    assert ask(url, "schedules", "backfill", "nightly", "2026-01-01", "2026-01-03", "--preview")["executions"] == []
    done = ask(url, "schedules", "backfill", "nightly", "2026-01-01", "2026-01-03")
    assert len(done["executions"]) == 2
    again = run(url, "schedules", "backfill", "nightly", "2026-01-01", "2026-01-03").stdout
    assert again == "0 slots will run.\n2 slots passed over: PENDING\n"
    assert "expected a time like" in run(url, "schedules", "backfill", "nightly", "soon", "2026-01-03", code=2).stderr


def test_explain_answers_in_sentences_and_as_json(url: str) -> None:
    add(url, "nightly", "30 2 * * *", "--tz", "Europe/Berlin")
    shown = run(url, "schedules", "explain", "nightly", "--at", "2020-03-29T02:30").stdout
    assert "did not exist then: created by operator:ann" in shown
    ahead = ask(url, "schedules", "explain", "nightly", "--at", "2099-01-01T02:30+01:00")
    assert ahead["verdict"] == "ahead"
    assert "did you mean nightly" in run(url, "schedules", "explain", "nightli", "--at", "2026-01-01", code=1).stderr


def test_delete_needs_force_while_an_execution_is_live(url: str) -> None:
    add(url)
    run(url, "schedules", "run", "nightly")
    assert "live execution" in run(url, "schedules", "delete", "nightly", code=1).stderr
    assert "Deleted nightly" in run(url, "schedules", "delete", "nightly", "--force").stdout
    assert "was deleted" in run(url, "schedules", "explain", "nightly", "--at", "2026-01-01").stdout


def test_a_schedule_that_plain_sql_broke_can_still_be_listed_and_shown(url: str) -> None:
    add(url)
    plain_sql(url, "UPDATE cron_jobs SET cron_expression = 'noon', zone = 'Mars/Base', handler_params = '[1'")
    run(url, "scheduler", "--once")
    assert "disabled by plain SQL" in run(url, "schedules", "list", env=WIDE).stdout
    assert "Mars/Base" in run(url, "schedules", "show", "nightly").stdout
    assert "none:" in run(url, "schedules", "next", "nightly").stdout
    fixed = run(url, "schedules", "edit", "nightly", "--expression", "@daily", "--tz", "UTC", "--params", "{}").stdout
    assert "`stepwell schedules enable` enables it" in fixed


def test_scheduler_once_decides_what_is_due(url: str) -> None:
    add(url, "yearly", "30 2 1 1 *")
    long_ago = "last_slot = '2026-01-01 00:00:00.000000', next_slot = '2026-01-01 02:30:00.000000'"
    plain_sql(url, f"UPDATE cron_jobs SET {long_ago}")
    assert run(url, "scheduler", "--once").stdout == "1 execution created.\n"
    assert "execution 1 PENDING" in run(url, "schedules", "show", "yearly").stdout


def test_sync_writes_what_the_code_declares(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sync_shop.py").write_text(
        f"from stepwell import Stepwell\napp = Stepwell({url!r}, name='shop')\n"
        "@app.cron('@daily')\ndef tidy() -> None: ...\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = run(url, "schedules", "sync", "--app", "sync_shop:app").stdout
    assert shown == "created: tidy\n"
    assert run(url, "schedules", "sync", "--app", "sync_shop:app").stdout == "Nothing to change.\n"


def test_doctor_names_schedules_without_a_success_in_time_and_holes_in_the_ledger(url: str) -> None:
    add(url, "nightly", "* * * * *", "--expect-within", "60")
    assert ask(url, "doctor", code=0)["schedules"] == {"all": 1, "disabled": 0}
    plain_sql(
        url,
        "UPDATE cron_jobs SET last_slot = '2026-01-01 00:05:00.000000', ledger_from = '2026-01-01 00:00:00.000000', "
        "expected_from = '2026-01-01 00:00:00.000000'",
        "UPDATE steps_schedule_changes SET changed_at = '2026-01-01 00:00:00.000000'",
    )
    document = ask(url, "doctor", code=1)
    assert document["ledger_gaps"][0]["slot"] == "2026-01-01T00:01:00.000000+00:00"
    assert document["overdue"][0]["schedule"] == "nightly"
    shown = run(url, "doctor", code=1).stdout
    assert "the ledger has no row for its slot" in shown
    assert "nightly: no success since its slot" in shown
