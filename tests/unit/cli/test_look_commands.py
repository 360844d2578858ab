"""Looking: what the tables and the JSON of `steps`, `show`, `tree`, `explain`, `stats`, `groups` and `ticks` say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len

from stepwell import NewStep, State, StepRef, Stepwell
from stepwell.look.lists import StepRow
from stepwell.testing import behave
from tests.conftest import SQLITE_FILE
from tests.unit.cli.support import ANSI, ask, columns, on_terminal, run

# How it looks on the terminal does not depend on the database.
LAYOUT = pytest.mark.parametrize("shared_database_url", [SQLITE_FILE], indirect=True)
LOOKS = [
    ["steps"],
    ["steps", "--state", "failed"],
    ["show", "3"],
    ["tree", "1"],
    ["explain", "4"],
    ["explain", "6"],
    ["stats"],
    ["groups"],
    ["ticks"],
]


@dataclass
class Scene:
    """A family in which one child failed, and a loner that no worker serves."""

    app: Stepwell
    url: str
    refs: dict[str, StepRef]


@pytest.fixture
def scene(shared_database_url: str) -> Iterator[Scene]:
    with Stepwell(shared_database_url) as app:
        behave(app)
        family = NewStep(action="behave", label="family", relatable=("invoice", 42))
        fine = NewStep(action="behave", label="fine", parent=family, arguments={"result": {"rows": 7}})
        broken = NewStep(action="behave", label="broken", parent=family, index=2, arguments={"outcome": "fail"})
        behind = NewStep(action="behave", label="behind", parent=family, index=3)
        cleanup = NewStep(action="behave", label="cleanup", parent=family, type="resolve-exception")
        drafts = [family, fine, broken, behind, cleanup]
        refs: dict[str, StepRef] = dict(
            zip(["family", "fine", "broken", "behind", "cleanup"], app.enqueue_many(drafts), strict=True)
        )
        app.run_until_idle()
        refs["loner"] = app.enqueue("unknown", label="loner", delay=3_600, depends_on=[refs["fine"]])
        yield Scene(app, shared_database_url, refs)


def ids(documents: list[dict[str, int]]) -> list[int]:
    return [document["id"] for document in documents]


# steps -------------------------------------------------------------------------------------------------


def test_steps_come_newest_first_one_on_a_line(scene: Scene) -> None:
    head, *rows = run(scene.url, "steps").stdout.splitlines()
    assert columns(head) == ["ID", "STATE", "STEP", "GROUP", "QUEUE", "CHANGED", "WHY"]
    assert [row.split()[0] for row in rows] == [str(number) for number in sorted(ids_of(scene), reverse=True)]
    broken = next(row for row in rows if "broken" in row)
    assert columns(broken)[1:3] == ["Failed", "broken"]
    assert broken.endswith("Permanent: told to fail")


def ids_of(scene: Scene) -> list[int]:
    return [reference.id for reference in scene.refs.values()]


def test_steps_can_be_filtered(scene: Scene) -> None:
    expected = {
        "--state completed": "cleanup fine",
        "--state Failed --state NOTRUNNABLE": "behind broken family",
        "--action unknown": "loner",
        "--queue default --state pending": "loner",
        "--queue priority": "",
        "--group alpha --action unknown": "loner",
        "--group kappa --action nothing": "",
        "--relatable invoice:42": "family",
        "--relatable invoice:43": "",
    }
    found = {filters: ask(scene.url, "steps", *filters.split()) for filters in expected}
    assert {filters: " ".join(sorted(step["label"] for step in steps)) for filters, steps in found.items()} == expected


def test_the_steps_of_a_workflow_are_found_by_any_of_its_steps(scene: Scene) -> None:
    elsewhere = scene.app.enqueue("other")
    for name in (scene.refs["family"].uuid, scene.refs["family"].uuid.upper(), str(scene.refs["broken"].id)):
        found = ids(ask(scene.url, "steps", "--workflow", name))
        assert set(found) == set(ids_of(scene))
        assert elsewhere.id not in found


def test_pages_of_steps_follow_each_other_without_gap(scene: Scene) -> None:
    seen: list[int] = []
    page = ask(scene.url, "steps", "--limit", "2")
    while page:
        seen += ids(page)
        page = ask(scene.url, "steps", "--limit", "2", "--before", str(seen[-1]))
    assert seen == sorted(ids_of(scene), reverse=True)
    assert f"--before {seen[1]}" in run(scene.url, "steps", "--limit", "2").stdout


def test_no_match_is_reported(scene: Scene) -> None:
    assert run(scene.url, "steps", "--queue", "priority").stdout == "No steps match.\n"
    assert run(scene.url, "steps", "--before", "1").stdout == "No older steps match.\n"
    assert ask(scene.url, "steps", "--queue", "priority") == []
    assert ids(ask(scene.url, "steps", "--before", str(10**30))) == sorted(ids_of(scene), reverse=True)


def test_json_of_a_list_holds_every_field_but_the_long_ones_with_times_in_utc(scene: Scene) -> None:
    document = next(step for step in ask(scene.url, "steps") if step["label"] == "fine")
    step = scene.app.step(scene.refs["fine"])
    assert list(document) == list(StepRow.__struct_fields__)
    for name in ("created_at", "started_at", "completed_at", "updated_at"):
        assert document[name].endswith("+00:00")
        assert datetime.fromisoformat(document[name]) == getattr(step, name)
    assert datetime.fromisoformat(document["created_at"]).tzinfo == UTC


# show --------------------------------------------------------------------------------------------------


def test_show_tells_all_of_a_step(scene: Scene) -> None:
    step = scene.app.step(scene.refs["broken"])
    shown = run(scene.url, "show", str(step.id)).stdout
    assert shown.startswith(f"step {step.id} broken  Failed\n")
    assert ask(scene.url, "show", step.uuid) == ask(scene.url, "show", str(step.id))
    for part in (
        step.uuid,
        "behave",
        step.created_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC"),
        '"outcome": "fail"',
        "Permanent: told to fail",
        "Traceback (most recent call last):",
        "index 2",
        "0 of 3",
    ):
        assert part in shown
    history = shown.partition("\nHistory\n")[2].splitlines()[1:]
    states = [columns(line)[1:3] for line in history]
    assert states == [
        ["(created)", "Pending"],
        ["Pending", "Dispatched"],
        ["Dispatched", "Running"],
        ["Running", "Failed"],
    ]


def test_show_gives_the_history_and_the_dependencies_as_json(scene: Scene) -> None:
    document = ask(scene.url, "show", str(scene.refs["loner"].id))
    assert document["step"]["label"] == "loner"
    assert document["depends_on"] == [scene.refs["fine"].id]
    (created,) = document["history"]
    assert (created["from_state"], created["to_state"], created["attempt"]) == (None, "Pending", 0)
    lines = [columns(line) for line in run(scene.url, "show", str(scene.refs["loner"].id)).stdout.splitlines()]
    assert ["depends on", f"{scene.refs['fine'].id} fine (Completed)"] in lines


# tree --------------------------------------------------------------------------------------------------


def test_a_tree_has_its_children_in_the_order_of_their_index(scene: Scene) -> None:
    one, two, three, four, five = (scene.refs[name].id for name in ("family", "fine", "broken", "behind", "cleanup"))
    assert run(scene.url, "tree", str(one)).stdout.splitlines() == [
        f"✗ {one} family  Failed · not all of its children concluded",
        f"├─ ✓ {two} fine  Completed",
        f"├─ ✗ {three} broken  Failed · index 2 · Permanent: told to fail",
        f"├─ – {four} behind  NotRunnable · index 3 · an earlier step failed",
        f"└─ ✓ {five} cleanup  Completed · exception handler",
    ]
    assert [(node["depth"], node["step"]["id"]) for node in ask(scene.url, "tree", str(one))] == [
        (0, one),
        (1, two),
        (1, three),
        (1, four),
        (1, five),
    ]


def test_a_parent_of_many_is_shown_in_part_unless_all_is_asked_for(scene: Scene) -> None:
    parent = NewStep(action="behave", label="large")
    top, *_ = scene.app.enqueue_many([parent, *(NewStep(action="behave", parent=parent) for _ in range(120))])
    lines = run(scene.url, "tree", str(top.id)).stdout.splitlines()
    assert len(lines) == 52
    assert lines[-1] == "└─ … 70 more: 70 Pending"
    assert len(run(scene.url, "tree", str(top.id), "--all").stdout.splitlines()) == 121
    assert len(ask(scene.url, "tree", str(top.id))) == 121


def test_a_chain_of_a_thousand_parents_is_shown(scene: Scene) -> None:
    chain = [NewStep(action="behave")]
    for _ in range(1_000):
        chain.append(NewStep(action="behave", parent=chain[-1]))
    top, *_ = scene.app.enqueue_many(chain)
    assert len(run(scene.url, "tree", str(top.id)).stdout.splitlines()) == 1_001
    assert [node["depth"] for node in ask(scene.url, "tree", str(top.id))] == list(range(1_001))


# explain -----------------------------------------------------------------------------------------------


def test_explain_says_what_the_engine_says(scene: Scene) -> None:
    explanation = scene.app.explain(scene.refs["loner"])
    document = ask(scene.url, "explain", str(scene.refs["loner"].id))
    assert [obstacle["condition"] for obstacle in document["obstacles"]] == [o.condition for o in explanation.obstacles]
    assert document["eligible"] is False
    assert document["obstacles"][0]["changes_at"].endswith("+00:00")
    shown = run(scene.url, "explain", str(scene.refs["loner"].id)).stdout
    assert "no live worker serves" in shown
    assert "min" in shown


def test_explain_of_a_single_reason_is_one_sentence(scene: Scene) -> None:
    failed = scene.refs["broken"].id
    runner = scene.app.inline_runner()
    shown = run(scene.url, "explain", str(failed)).stdout
    assert shown.splitlines() == [
        f"step {failed} broken  Failed",
        scene.app.explain(failed).summary,
        "",
        f"Try: stepwell retry {failed} or stepwell skip {failed}",
    ]
    runner.close()


def test_explain_says_what_a_step_will_wait_for_after_its_retry(scene: Scene) -> None:
    behind, broken = scene.refs["behind"].id, scene.refs["broken"].id
    lines = run(scene.url, "explain", str(behind)).stdout.splitlines()
    then = "no live worker serves queue 'default' and action 'behave'"
    assert lines[2] == f"after that: {then}"
    assert f"  steps {behind}, {broken} later: {then}" in lines[lines.index("Root causes") :]
    document = ask(scene.url, "explain", str(behind))
    assert [each["message"] for each in document["afterwards"]] == [then]
    assert {root["condition"]: root["is_later"] for root in document["roots"]} == {"workers": True, "ended": False}


def test_explain_shows_the_steps_behind_the_step_and_the_root_causes(scene: Scene) -> None:
    behind, broken = scene.refs["behind"].id, scene.refs["broken"].id
    lines = run(scene.url, "explain", str(behind)).stdout.splitlines()
    reason = "ended Failed (error): Permanent: told to fail"
    assert lines[lines.index("Behind it") + 1] == f"  step {broken} broken (Failed): {reason}"
    assert f"  step {broken}: {reason}" in lines[lines.index("Root causes") :]
    assert lines[-1] == f"Try: stepwell retry {broken} or stepwell skip {broken}"
    document = ask(scene.url, "explain", str(behind))
    assert [step["step_id"] for step in document["behind"]] == [broken]
    assert [root["advice"] for root in document["roots"] if root["steps"] == [broken]] == [
        [f"stepwell retry {broken}", f"stepwell skip {broken}"]
    ]


# stats, groups, ticks ----------------------------------------------------------------------------------


def test_stats_count_every_state(scene: Scene) -> None:
    document = ask(scene.url, "stats")
    assert list(document["states"]) == [str(state) for state in State]
    assert document["states"]["Completed"] == 2
    assert document["breaker"]["dispatching"] is True
    shown = run(scene.url, "stats").stdout
    assert "dispatching  on" in shown
    assert "Live workers\nnone" in shown
    runner = scene.app.inline_runner(slots=5)
    assert str(scene.app.stats().workers[0].pid) in run(scene.url, "stats").stdout
    runner.close()


def test_groups_show_their_unfinished_work(scene: Scene) -> None:
    group = scene.app.step(scene.refs["loner"]).group
    found = {row["group"]: row for row in ask(scene.url, "groups")}
    assert len(found) == 10
    assert found[group]["unfinished"] == {"Pending": 1, "Dispatched": 0, "Running": 0}
    assert found[group]["last_tick_completed"] is not None
    row = next(line for line in run(scene.url, "groups").stdout.splitlines() if line.startswith(str(group)))
    assert row.split()[1:4] == ["1", "0", "0"]


def test_ticks_say_what_they_changed(scene: Scene) -> None:
    group = scene.app.step(scene.refs["family"]).group
    found = ask(scene.url, "ticks", "--group", str(group), "--limit", "3")
    assert [row["group"] for row in found] == [group] * 3
    assert ids(found) == sorted(ids(found), reverse=True)
    shown = run(scene.url, "ticks").stdout
    for what in ("dispatch 1", "promote_handlers 1", "cascade_failures", "parents_to_failed 1"):
        assert what in shown
    assert ask(scene.url, "ticks", "--group", "kappa") == []
    assert "No ticks recorded" in run(scene.url, "ticks", "--group", "kappa").stdout


# where it is shown -------------------------------------------------------------------------------------


@LAYOUT
@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_everything_fits_a_terminal_of_80_columns(scene: Scene, arguments: list[str]) -> None:
    scene.app.enqueue("x" * 255, label="y" * 255, group="g" * 255, depends_on=[], relatable=("invoice", 1))
    lines = on_terminal(scene.url, *arguments)
    assert max(cell_len(line) for line in lines) <= 80


@LAYOUT
def test_long_names_are_folded_and_take_nothing_away_from_the_rest(scene: Scene) -> None:
    step = scene.app.enqueue("x" * 255, label="y" * 255, group="g" * 255, queue="default")
    lines = on_terminal(scene.url, "steps")
    rows = {line.split()[0]: line.split()[1] for line in lines if line.strip()[:1].isdigit()}
    assert rows == {str(found.id): str(found.state) for found in scene.app.steps()}
    assert "".join(lines).count("y") >= 59
    shown = "".join("".join(on_terminal(scene.url, "show", str(step.id))).split())
    for name in ("x" * 255, "y" * 255, "g" * 255):
        assert name in shown, "all of it, folded"
    counts = [line.split()[1:4] for line in on_terminal(scene.url, "groups")[2:]]
    assert ["1", "0", "0"] in counts
    assert len(counts) == 11
    scene.app.cancel(step, who="ann", why="w" * 150)
    (line,) = on_terminal(scene.url, "tree", str(step.id))
    assert line.endswith("…")
    assert cell_len(line) <= 80


@LAYOUT
@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_output_that_is_piped_is_plain(scene: Scene, arguments: list[str]) -> None:
    shown = run(scene.url, *arguments).stdout
    assert not ANSI.search(shown)
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_show_and_explain_tell_of_a_refused_answer_to_a_gate(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        flow = app.workflows("shop").workflow("ordering")
        flow.gate("approval", result=bool)
        step = flow.start().step("approval").id
        app.run_until_idle()
        answer = f"INSERT INTO step_answers (step_id, answer, answered_by) VALUES ({step}, '7', 'billing')"
        app.database.transact(lambda tx: tx.execute(answer, {}))
        app.run_until_idle()
    for command in ("show", "explain"):
        assert "billing" in run(shared_database_url, command, str(step)).stdout
    refused = ask(shared_database_url, "show", str(step))["step"]["decision"]["refused"]
    assert refused["answered_by"] == "billing"


def test_the_beginning_of_a_uuid_is_enough_if_only_one_step_has_it(shared_database_url: str) -> None:
    url = shared_database_url
    with Stepwell(url) as app:
        behave(app)
        first, second = app.enqueue("behave", label="first"), app.enqueue("behave", label="second")
        differs = next(place for place, letter in enumerate(first.uuid) if letter != second.uuid[place])
        shared, enough = second.uuid[:differs], second.uuid[: differs + 1]
        assert run(url, "show", enough).stdout.startswith(f"step {second.id} second")
        assert f"step {second.id} " in run(url, "cancel", enough).stdout
        assert "several steps have a uuid that begins with" in run(url, "cancel", shared, code=1).stderr
        assert app.step(first).state is State.PENDING
        for command in ("show", "tree", "explain"):
            missing = run(url, command, "ffffffff-ffff", code=1).stderr
            assert missing == "stepwell: no step or workflow has an id that begins with 'ffffffff-ffff'\n"
        workflow = run(url, "steps", "--workflow", enough).stdout
        assert "second" in workflow
        assert "first" not in workflow


def test_filters_and_options_that_name_a_step_take_the_beginning_of_its_uuid(shared_database_url: str) -> None:
    url = shared_database_url
    with Stepwell(url) as app:
        behave(app)
        parent = app.enqueue("behave", {"outcome": "fail"}, label="parent")
        beginning = parent.uuid[:30]
        child = ask(url, "enqueue", "behave", "--parent", beginning)
        assert child["parent_step_id"] == parent.id
        later = ask(url, "enqueue", "behave", "--depends-on", beginning, "--workflow", parent.uuid)
        assert ask(url, "show", str(later["id"]))["depends_on"] == [parent.id]
        assert [step["id"] for step in ask(url, "steps", "--parent", beginning)] == [child["id"]]
        assert ask(url, "steps", "--cause", beginning) == []
        assert ask(url, "steps", "--parent", "99999") == []
        for words in (["steps", "--parent"], ["steps", "--cause"], ["enqueue", "behave", "--depends-on"]):
            assert "does not exist" in run(url, *words, "ffffffff-ffff", code=1).stderr
        assert ask(url, "pause", "--workflow", beginning) == {"workflow": parent.uuid, "paused": True}
        assert ask(url, "resume", "--workflow", beginning) == {"workflow": parent.uuid, "paused": False}
