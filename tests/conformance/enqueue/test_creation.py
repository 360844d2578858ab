"""Creating steps: one, many, delayed, related to something; and what is refused before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stepwell import InvalidStep, NewStep, StepNotFound, StepRef, Stepwell, StepwellError, UnstorableValue
from tests.conformance.support.engine import Engine
from tests.unit.model.test_codec import REFUSED


def test_a_new_step_is_what_was_asked_for(engine: Engine) -> None:
    ref = engine.app.enqueue(
        "fetch",
        {"symbol": "BTC", "depth": [1, 2.5, None, True, "é"]},
        label="fetch BTC",
        queue="candles",
        max_retries=7,
        timeout=30,
        cooldown=2.5,
        relatable=("Symbol", 42),
    )
    step = engine.app.step(ref)
    assert (step.id, step.uuid) == (ref.id, ref.uuid)
    assert step.arguments == {"symbol": "BTC", "depth": [1, 2.5, None, True, "é"]}
    assert (step.action, step.label, step.queue, step.max_retries) == ("fetch", "fetch BTC", "candles", 7)
    assert (step.timeout, step.cooldown) == (30.0, 2.5)
    assert (step.relatable_type, step.relatable_id) == ("Symbol", "42")
    assert (str(step.state), step.reason, step.attempts, step.retries) == ("Pending", None, 0, 0)
    assert step.created_at == step.updated_at == engine.clock.now()
    assert (step.started_at, step.completed_at, step.response, step.dispatch_after) == (None, None, None, None)


def test_a_step_is_found_by_reference_id_uuid_and_text(engine: Engine) -> None:
    ref = engine.add("a")
    for which in (ref, ref.id, ref.uuid, str(ref.id), ref.uuid.upper(), engine["a"]):
        assert engine.app.step(which).id == ref.id
    for unknown in (ref.id + 1, 2**63, -1, "no uuid", "-" * 36, "", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(StepNotFound, match=f"step {unknown} does not exist"):
            engine.app.step(unknown)


def test_ten_thousand_steps_in_one_call(engine: Engine) -> None:
    refs = engine.app.enqueue_many(NewStep(action="behave", arguments={"result": n}) for n in range(10_000))
    assert len({ref.id for ref in refs}) == len({ref.uuid for ref in refs}) == 10_000
    for n in (0, 1, 4_999, 9_999):
        assert engine.app.step(refs[n]).arguments == {"result": n}
    assert engine.app.stats().agenda == {"open": 10_000}
    assert engine.sql("SELECT count(*) AS n FROM step_transitions")[0]["n"] == 10_000


@pytest.mark.parametrize("shape", ["children", "block", "chain", "join", "indexes"])
def test_thousands_of_steps_that_belong_together_in_one_call(engine: Engine, shape: str) -> None:
    """In time that grows with their number: the square of it would not end within the test's patience."""
    count = 5_000
    root = NewStep(action="behave", label="root")
    steps = [root]
    for n in range(count):
        ties: dict[str, dict[str, Any]] = {
            "children": {"parent": root},
            "block": {"block": "0189d9a0-0000-7000-8000-000000000001"},
            "chain": {"depends_on": [steps[-1]]},
            "join": {},
            "indexes": {"parent": root, "index": n + 1},
        }
        steps.append(NewStep(action="behave", **ties[shape]))
    if shape == "join":
        steps.append(NewStep(action="behave", depends_on=list(steps)))
    refs = engine.app.enqueue_many(steps)
    first, last = engine.app.step(refs[1]), engine.app.step(refs[-1])
    assert (first.group, first.workflow_id) == (last.group, last.workflow_id)


def test_a_bulk_call_writes_all_or_nothing(engine: Engine) -> None:
    engine.plant("there")
    before = engine.snapshot()
    good = [NewStep(action="behave") for _ in range(50)]
    bad: list[NewStep] = [
        NewStep(action="behave", arguments={"n": float("nan")}),
        NewStep(action=""),
        NewStep(action="behave", parent=987_654),
        NewStep(action="behave", depends_on=[NewStep(action="behave")]),
        good[0],
    ]
    for one in bad:
        with pytest.raises(InvalidStep):
            engine.app.enqueue_many([*good, one])
        assert engine.snapshot() == before


def test_an_empty_call_creates_nothing(engine: Engine) -> None:
    assert engine.app.enqueue_many([]) == []
    assert engine.app.steps() == []


def test_results_of_a_bulk_call_stand_in_the_order_of_the_drafts(engine: Engine) -> None:
    parent = NewStep(action="behave", label="parent")
    drafts = [NewStep(action="behave", label=f"child {n}", parent=parent) for n in range(3)]
    refs = engine.app.enqueue_many([*drafts, parent])
    assert [engine.app.step(ref).label for ref in refs] == ["child 0", "child 1", "child 2", "parent"]
    assert all(engine.app.step(ref).parent_step_id == refs[-1].id for ref in refs[:3])


# What is refused ------------------------------------------------------------------------------------------------


def test_arguments_that_cannot_be_stored_are_refused_with_their_path(engine: Engine) -> None:
    """The codec's own tests have each case by itself; here none of them reaches a database."""
    before = engine.snapshot()
    for case, value, said in REFUSED:
        with pytest.raises(UnstorableValue) as refusal:
            engine.app.enqueue("anything", value)
        assert said in str(refusal.value), case
    assert engine.snapshot() == before


def test_values_at_the_limits_are_stored_and_read_unchanged(engine: Engine) -> None:
    value = {
        "least": -(2**63),
        "most": 2**63 - 1,
        "text": "\u0001 \u007f \u2028 \uffff \U0010ffff é",
        "floats": [0.1, 1e308, 5e-324, -0.0, 1.0],
        "key with . and [0]": {"": None},
        "long": "x" * 1_000_000,
    }
    back = engine.app.step(engine.app.enqueue("anything", value)).arguments
    assert back == value
    assert str(back["floats"]) == str(value["floats"])


@pytest.mark.one_database
@pytest.mark.parametrize("arguments", [[1, 2], "text", 7, True, 1.5], ids=repr)
def test_arguments_are_given_by_name(engine: Engine, arguments: Any) -> None:
    """They become the keywords of the job; anything else could never run."""
    for action in ("behave", "anything"):
        with pytest.raises(InvalidStep, match="a dict of names"):
            engine.app.enqueue(action, arguments)
    assert engine.app.steps() == []


BAD_SETTINGS: list[dict[str, Any]] = [
    {"action": ""},
    {"action": None},
    {"action": 7},
    {"action": "x" * 256},
    {"action": "a\0b"},
    {"action": "a\nb"},
    {"action": "\ud800"},
    {"label": ""},
    {"label": "a\0b"},
    {"queue": ""},
    {"queue": 5},
    {"group": "x" * 256},
    {"group": "a\ud800"},
    {"key": ""},
    {"key": b"bytes"},
    {"type": "handler"},
    {"priority": "low"},
    {"priority": 10},
    {"trigger_rule": "whenever"},
    {"index": -1},
    {"index": 1.5},
    {"index": True},
    {"index": 2**31},
    {"index": "1"},
    {"max_retries": -1},
    {"max_retries": 2**31},
    {"timeout": -1},
    {"timeout": float("nan")},
    {"timeout": float("inf")},
    {"timeout": "5"},
    {"timeout": 10**400},
    {"cooldown": -0.1},
    {"delay": float("nan")},
    {"delay": float("inf")},
    {"delay": 10**12},
    {"delay": "5"},
    {"delay": timedelta.max},
    {"delay": 5, "dispatch_after": datetime(2027, 1, 1, tzinfo=UTC)},
    {"dispatch_after": datetime(2027, 1, 1)},
    {"dispatch_after": "2027-01-01"},
    {"dispatch_after": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))},
    {"relatable": "Symbol"},
    {"relatable": ("Symbol",)},
    {"relatable": ("Symbol", 1, 2)},
    {"relatable": ("", 1)},
    {"relatable": ("Symbol", "a\0b")},
    {"relatable": ("Sym\ud800bol", 1)},
    {"relatable": ("Symbol", "x" * 256)},
    {"relatable": ("Symbol", None)},
    {"parent": 1.5},
    {"parent": "not a uuid"},
    {"parent": {"id": 1}},
    {"depends_on": 5},
    {"depends_on": [None]},
    {"block": "not a uuid"},
    {"block": 5},
    {"child_block": "no"},
    {"workflow": "no"},
    {"type": "resolve-exception", "depends_on": [1]},
]


def test_bad_settings_are_refused_the_same_way_on_every_database(engine: Engine) -> None:
    engine.plant("there")
    before = engine.snapshot()
    accepted = []
    for settings in BAD_SETTINGS:
        try:
            engine.app.enqueue_many([NewStep(**{"action": "behave", **settings})])
        except InvalidStep:
            continue
        accepted.append(settings)
    assert accepted == []
    assert engine.snapshot() == before


@pytest.mark.one_database
def test_everything_wrong_with_a_step_is_reported_at_once(engine: Engine) -> None:
    with pytest.raises(InvalidStep) as refusal:
        engine.app.enqueue("behave", index=-1, priority="low", timeout=-5)
    assert all(word in str(refusal.value) for word in ("'behave'", "index", "priority", "timeout"))


@pytest.mark.one_database
def test_an_unknown_setting_is_refused(engine: Engine) -> None:
    for action in ("behave", "unknown"):
        with pytest.raises(StepwellError, match="unknown setting 'colour'"):
            engine.app.enqueue(action, colour="red")


# Later -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when",
    [
        {"delay": 90},
        {"delay": 90.0},
        {"delay": timedelta(seconds=90)},
        {"dispatch_after": datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)},
        {"dispatch_after": datetime(2026, 1, 1, 2, 1, 30, tzinfo=timezone(timedelta(hours=2)))},
    ],
    ids=str,
)
def test_a_delayed_step_waits_for_its_moment(engine: Engine, when: dict[str, Any]) -> None:
    engine.add("a", **when)
    assert engine["a"].dispatch_after == datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)
    engine.clock.advance(89.999999)
    assert engine.app.run_until_idle() == 0
    assert engine.state("a") == "Pending"
    engine.clock.advance(0.000001)
    assert engine.app.run_until_idle() == 1


def test_a_moment_in_the_past_is_now(engine: Engine) -> None:
    engine.add("a", dispatch_after=datetime(2020, 1, 1, tzinfo=UTC))
    engine.add("b", delay=-5)
    assert engine.app.run_until_idle() == 2


def test_a_delay_counts_also_behind_others(engine: Engine) -> None:
    engine.plant("root(first)")
    engine.add("second", parent=engine.refs["root"], index=2, delay=60)
    engine.app.run_until_idle()
    assert engine.states() == {"root": "Running", "first": "Completed", "second": "Pending"}
    engine.clock.advance(60)
    engine.app.run_until_idle()
    assert set(engine.states().values()) == {"Completed"}


# What a step is about -----------------------------------------------------------------------------------------------


def test_steps_are_found_by_what_they_are_about(engine: Engine) -> None:
    engine.add("a", relatable=("Order", 7))
    engine.add("b", relatable=("Order", "7"))
    engine.add("c", relatable=("Order", 8))
    engine.add("d", relatable=("Invoice", 7))
    engine.add("e")
    labels = [step.label for step in engine.app.steps(relatable=("Order", 7))]
    assert labels == ["b", "a"]
    assert [step.label for step in engine.app.steps(relatable=("Order", 7), state="Completed")] == []
    engine.settle()
    assert len(engine.app.steps(relatable=("Order", "7"), state=["Completed", "Failed"])) == 2


@pytest.mark.one_database
def test_steps_cannot_be_filtered_by_what_is_not_there(engine: Engine) -> None:
    with pytest.raises(StepwellError, match="colour"):
        engine.app.steps(colour="red")


# Through a job ------------------------------------------------------------------------------------------------------


def test_a_job_makes_a_step_of_a_call(app: Stepwell) -> None:
    @app.job(retries=5, timeout=30, queue="candles")
    def fetch(symbol: str, depth: int = 3) -> str:
        return symbol * depth

    step = app.step(fetch.enqueue("BTC", depth=2))
    assert (step.action, step.arguments) == ("fetch", {"symbol": "BTC", "depth": 2})
    assert (step.max_retries, step.timeout, step.queue) == (5, 30.0, "candles")
    later = app.step(fetch.options(delay=60, queue=None).enqueue(symbol="ETH"))
    assert (later.queue, later.arguments) == ("default", {"symbol": "ETH"})
    app.run_until_idle()
    assert app.step(step).response == "BTCBTC"
    with pytest.raises(InvalidStep, match="missing a required argument"):
        fetch.enqueue()  # type: ignore[call-arg]


@dataclass
class Wanted:
    symbol: str


def test_a_job_of_the_app_that_is_enqueued_by_its_name_brings_its_own_settings(app: Stepwell) -> None:
    @app.job(
        retries=5, timeout=30, cooldown=2, queue="candles", delay=60, concurrency_key=lambda symbol, depth=3: symbol
    )
    def fetch(symbol: str, depth: int = 3) -> str:
        return symbol * depth

    def settings(step: StepRef) -> tuple[Any, ...]:
        row = app.step(step)
        return row.max_retries, row.timeout, row.cooldown, row.queue, row.concurrency_key, row.arguments

    expected = (5, 30.0, 2.0, "candles", "BTC", {"symbol": "BTC"})
    assert settings(fetch.enqueue("BTC")) == expected
    assert settings(app.enqueue("fetch", {"symbol": "BTC"})) == expected
    assert settings(app.enqueue("fetch", Wanted("BTC"))) == expected
    other = app.enqueue("fetch", {"symbol": "ETH"}, retries=1, queue="indicators", timeout=0)
    assert settings(other) == (1, 0.0, 2.0, "indicators", "ETH", {"symbol": "ETH"})
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    assert app.step(app.enqueue("fetch", {"symbol": "BTC"}, dispatch_after=moment)).dispatch_after == moment

    by_hand, changed, later, drafted = app.enqueue_many(
        [
            NewStep(action="fetch", arguments=Wanted("BTC")),
            NewStep(
                action="fetch", arguments={"symbol": "ETH"}, max_retries=1, queue="indicators", concurrency_key="k"
            ),
            NewStep(action="fetch", arguments={"symbol": "BTC"}, dispatch_after=moment),
            fetch.options(timeout=0, queue=None).draft("BTC"),  # that is what its maker wants
        ]
    )
    assert settings(by_hand) == expected
    assert settings(changed) == (1, 30.0, 2.0, "indicators", "k", {"symbol": "ETH"})
    assert app.step(later).dispatch_after == moment
    assert settings(drafted) == (5, 0.0, 2.0, "default", "BTC", {"symbol": "BTC"})


@pytest.mark.one_database
def test_a_job_of_the_app_that_is_enqueued_by_its_name_checks_its_arguments(app: Stepwell) -> None:
    @app.job()
    def fetch(symbol: str, depth: int = 3) -> str:
        return symbol * depth

    for arguments, blamed in [
        (None, "missing a required argument: 'symbol'"),
        ({"symbol": 7}, "symbol: Expected `str`"),
        ({"symbol": "BTC", "colour": "red"}, "unexpected keyword argument 'colour'"),
        ({"symbol": "BTC", 7: 7}, "unexpected keyword argument '7'"),
        (["BTC"], "arguments must be a dict of names and values"),
    ]:
        with pytest.raises(InvalidStep, match=blamed):
            app.enqueue("fetch", arguments)
        good, bad = fetch.draft("BTC"), NewStep(action="fetch", arguments={} if arguments is None else arguments)
        with pytest.raises(InvalidStep, match=blamed):
            app.enqueue_many([good, bad])
    assert app.steps() == []
    assert app.step(app.enqueue("of another program", {"symbol": 7})).arguments == {"symbol": 7}


def test_steps_that_were_drafted_by_hand_and_by_a_job_name_each_other(app: Stepwell) -> None:
    @app.job(retries=5)
    def fetch(symbol: str = "BTC") -> str:
        return symbol

    top = NewStep(action="fetch", label="top", key="once")
    middle = fetch.options(parent=top, label="middle").draft()
    left = NewStep(action="fetch", parent=middle, label="left")
    right = NewStep(action="fetch", parent=middle, depends_on=[left], label="right")
    refs = app.enqueue_many([right, left, middle, top])
    below = NewStep(action="fetch", parent=top, label="below")
    again = app.enqueue_many([below, top])  # exists by its key, and is named all the same
    assert again[1] == refs[3]
    assert [app.step(ref).label for ref in refs] == ["right", "left", "middle", "top"]
    assert [app.step(ref).parent_step_id for ref in (*refs, again[0])] == [
        refs[2].id, refs[2].id, refs[3].id, None, refs[3].id,
    ]  # fmt: skip
    app.run_until_idle()
    assert {(step.state, step.max_retries) for step in app.steps()} == {("Completed", 5)}
    with pytest.raises(InvalidStep, match="twice"):
        app.enqueue_many([left, left])
