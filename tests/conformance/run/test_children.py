"""Children of a running step: written with the end of compute, ready when the own code is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from stepwell import InvalidStep, Job, NewStep, Permanent, Retry, Skip, StepRef, Stepwell, Stop
from stepwell.run.running import RunningStep
from stepwell.testing import ManualClock, behave
from tests.conformance.support.jobs import Script, below, names

HANDLER = "resolve-exception"


@pytest.fixture
def leaf(app: Stepwell) -> Callable[..., NewStep]:
    """A draft of a job that does nothing, by its label."""
    job = app.job(name="leaf")(lambda: None)

    def draft(label: str, **settings: Any) -> NewStep:
        return job.options(label=label, **settings).draft()

    return draft


def parent_that(app: Stepwell, clock: ManualClock, work: Callable[[RunningStep], Any], **settings: Any) -> Script:
    """A job whose compute does this with its step, and returns nothing."""

    def compute(job: Job) -> None:
        work(job.step)

    return Script(app, clock, settings, compute=compute)


# How they are placed ------------------------------------------------------------------------------------------


def test_children_stand_one_after_the_other_and_those_of_a_list_side_by_side(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    script = parent_that(
        app, clock, lambda step: step.children(leaf("a"), [leaf("b"), leaf("c")], leaf("d"), leaf("!", type=HANDLER))
    )
    parent = script.run()
    places = {step.name: (step.index, step.type) for step in below(app, parent)}
    assert places == {
        "a": (1, "default"), "b": (2, "default"), "c": (2, "default"), "d": (3, "default"), "!": (1, HANDLER),
    }  # fmt: skip
    assert parent.state == "Completed"
    assert {step.group for step in below(app, parent)} == {parent.group}
    assert {step.workflow_id for step in below(app, parent)} == {parent.workflow_id}


def test_an_index_of_their_own_is_kept_and_the_next_one_comes_after_it(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    def work(step: RunningStep) -> None:
        step.children(leaf("a"), leaf("b", index=5), leaf("c"))
        step.children([leaf("d", index=7), leaf("e")], [], leaf("f"))

    script = parent_that(app, clock, work)
    places = {step.name: step.index for step in below(app, script.run())}
    assert places == {"a": 1, "b": 5, "c": 6, "d": 7, "e": 7, "f": 8}


def test_a_handler_runs_when_a_child_of_its_block_fails(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    bad = Script(app, clock, {"name": "bad"}, compute=Permanent("no")).job
    script = parent_that(
        app, clock, lambda step: step.children(bad.draft(), leaf("later"), leaf("clean", type=HANDLER))
    )
    parent = script.run()
    assert {step.name: step.state.value for step in below(app, parent)} == {
        "bad": "Failed", "later": "NotRunnable", "clean": "Completed",
    }  # fmt: skip
    assert (parent.state, parent.reason) == ("Failed", "children_failed")


def test_children_may_have_children_and_dependencies_among_themselves(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    def work(step: RunningStep) -> None:
        first = leaf("first")
        step.children([first, leaf("after", depends_on=[first])])
        app.enqueue_many([leaf("below", parent=first)])  # the same draft, in a later call
        (ref,) = step.children(leaf("named"))
        app.enqueue("leaf", parent=ref, label="by reference")
        app.enqueue("leaf", parent=ref.uuid.upper(), label="by uuid")
        app.enqueue("leaf", depends_on=[ref], parent=step, index=2, label="behind")

    script = parent_that(app, clock, work)
    parent = script.run()
    tree = {node.step.name: names([child.step for child in node.children]) for node in app.tree(parent).children}
    assert tree == {"first": ["below"], "after": [], "named": ["by reference", "by uuid"], "behind": []}
    ended = {step.name: step.id for step in app.steps(limit=100) if step.state == "Completed"}
    assert len(ended) == 8
    history = {name: app.history(id_)[-2].id for name, id_ in ended.items()}
    assert history["after"] > app.history(ended["first"])[-1].id
    assert history["behind"] > app.history(ended["named"])[-1].id


def test_a_draft_from_elsewhere_cannot_be_named(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    script = parent_that(app, clock, lambda step: step.children(leaf("a", depends_on=[leaf("stray")])), retries=0)
    assert "'a' refers to a new step that was not created in this run" in str(script.run().error_message)
    script = parent_that(
        app, clock, lambda step: step.children(one := leaf("one"), leaf("two", parent=one)), retries=0, name="parents"
    )
    assert "'two' has a different parent" in str(script.run().error_message)
    same = leaf("same")
    script = parent_that(app, clock, lambda step: step.children(same, same), retries=0, name="twice")
    assert "was passed twice" in str(script.run().error_message)
    assert names(app.steps(action="leaf")) == []


# Whatever API creates them -------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[Stepwell, RunningStep], Any]] = {
    "children": lambda app, step: step.children(NewStep(action="leaf")),
    "enqueue with the parent": lambda app, step: app.enqueue("leaf", parent=step),
    "enqueue with its id": lambda app, step: app.enqueue("leaf", parent=step.id),
    "enqueue with its uuid": lambda app, step: app.enqueue("leaf", parent=step.uuid.upper()),
    "enqueue with its row": lambda app, step: app.enqueue("leaf", parent=app.step(step)),
    "options": lambda app, step: app.jobs["leaf"].options(parent=step).enqueue(),
    "enqueue_many": lambda app, step: app.enqueue_many([NewStep(action="leaf", parent=step)]),
    "the child block": lambda app, step: app.enqueue("leaf", block=str(step._facts.child_block_uuid).upper()),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_api_creates_a_child_it_is_written_with_the_end_of_compute_and_once(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep], way: str
) -> None:
    seen: list[int] = []

    def work(step: RunningStep) -> None:
        WAYS[way](app, step)
        seen.append(len(app.steps(action="leaf")))
        if step.attempts < 3:
            raise Retry(in_=1)

    script = parent_that(app, clock, work)
    parent = script.run(child_block=str(uuid4()))
    assert seen == [0, 0, 0]
    (child,) = below(app, parent)
    assert (parent.state, child.state, child.parent_step_id) == ("Completed", "Completed", parent.id)


NAMES: dict[str, Callable[[StepRef], Any]] = {
    "reference": lambda ref: ref,
    "id": lambda ref: ref.id,
    "uuid": lambda ref: ref.uuid,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_child_of_a_namesake_in_another_database_is_created_there_at_once(
    app: Stepwell, clock: ManualClock, name: str
) -> None:
    seen: list[int] = []
    with Stepwell("sqlite://", clock=clock) as other:
        namesake = other.enqueue("leaf")

        def work(step: RunningStep) -> None:
            assert step.id == namesake.id
            seen.append(other.enqueue("leaf", parent=NAMES[name](namesake)).id)

        parent = parent_that(app, clock, work).run()
        assert (parent.state, below(app, parent)) == ("Completed", [])
        assert [child.id for child in below(other, other.step(namesake))] == seen


def test_a_child_by_another_app_on_the_same_database_is_written_with_the_end_of_compute(
    shared_database_url: str, clock: ManualClock
) -> None:
    spelled = shared_database_url.replace("sqlite:////", "sqlite:////./")
    if spelled == shared_database_url:
        spelled += "&connect_timeout=9" if "?" in spelled else "?connect_timeout=9"
    with Stepwell(shared_database_url, clock=clock) as app, Stepwell(spelled, clock=clock) as twin:
        seen: list[int] = []

        def work(step: RunningStep) -> None:
            twin.enqueue("leaf", parent=step.id)
            seen.append(len(twin.steps(action="leaf")))

        app.job(name="leaf")(lambda: None)
        parent = parent_that(app, clock, work).run()
        assert (seen, names(below(app, parent))) == ([0], ["leaf"])


def test_a_thread_that_the_job_starts_creates_children_as_the_job_itself_does(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    seen: list[int] = []

    def work(step: RunningStep) -> None:
        thread = threading.Thread(target=lambda: app.enqueue("leaf", parent=step.id))
        thread.start()
        thread.join()
        seen.append(len(app.steps(action="leaf")))
        if step.attempts < 2:
            raise Retry(in_=1)

    parent = parent_that(app, clock, work).run()
    assert (seen, names(below(app, parent))) == ([0, 0], ["leaf"])


def test_the_children_of_the_test_job_are_part_of_its_result_too(app: Stepwell) -> None:
    job = behave(app)
    good, bad = job.enqueue(spawn=[{}, {}]), job.enqueue("fail", spawn=[{}])
    app.run_until_idle()
    assert (len(app.tree(good).children), len(app.tree(bad).children)) == (2, 0)


def test_a_root_that_a_job_creates_is_written_at_once_and_stays_whatever_becomes_of_the_job(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    seen: list[str] = []

    def work(step: RunningStep) -> None:
        ref = app.enqueue("leaf", label="root")
        seen.append(app.step(ref).state.value)
        raise Permanent("no")

    script = parent_that(app, clock, work)
    assert script.run().state == "Failed"
    (root,) = app.steps(action="leaf")
    assert (seen, root.parent_step_id, root.state) == (["Pending"], None, "Completed")


def test_a_child_in_a_transaction_of_the_caller_is_refused(app: Stepwell, clock: ManualClock) -> None:
    app.job(name="leaf")(lambda: None)
    script = parent_that(app, clock, lambda step: app.enqueue("leaf", parent=step, connection=object()), retries=0)
    assert "omit `connection`" in str(script.run().error_message)


def test_waiting_for_the_result_of_an_own_child_is_refused(app: Stepwell, clock: ManualClock) -> None:
    leaf = app.job(name="leaf")(lambda: None)

    def work(step: RunningStep) -> None:
        leaf.options(parent=step).enqueue().result()

    step = parent_that(app, clock, work, retries=0).run()
    assert "cannot start before its parent's own code is done" in str(step.error_message)


# When they are written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [Permanent("no"), OSError("no"), Stop("no"), Skip("no"), Retry("no"), SystemExit(1)],
    ids=lambda error: type(error).__name__,
)
def test_nothing_is_written_when_compute_does_not_come_to_its_end(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep], error: BaseException
) -> None:
    def work(step: RunningStep) -> None:
        step.children(leaf("a"))
        raise error

    script = parent_that(app, clock, work, retries=1, max_not_completed=1)
    parent = script.run()
    assert parent.state.is_terminal
    assert (app.steps(action="leaf"), parent.has_children) == ([], False)


@pytest.mark.parametrize("later", [False, True], ids=["at the end", "with a later stage"])
def test_nothing_is_written_when_the_lease_is_lost(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep], later: bool
) -> None:
    def compute(job: Job) -> None:
        job.children(leaf("a"))
        app.cancel(job.step, who="tester")

    script = Script(app, clock, compute=compute, **({"complete": None} if later else {}))
    step = script.run()
    assert (step.state, step.response, step.compute_done_at) == ("Cancelled", None, None)
    assert (app.steps(action="leaf"), script.calls) == ([], ["compute"])


def test_children_begin_only_when_the_own_code_is_done(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    def compute(job: Job) -> None:
        job.children(leaf("a"))

    script = Script(app, clock, compute=compute, confirm_or_retry=[False, True], complete=None)
    script.ref = script.job.enqueue()
    app.run_until_idle()
    (child,) = below(app, script.step)
    assert (script.step.state, child.state, child.attempts) == ("Pending", "Pending", 0)
    assert script.settle().state == "Completed"
    (child,) = below(app, script.step)
    assert (child.state, script.calls.count("compute")) == ("Completed", 1)


def test_a_later_stage_may_add_children_and_ties_them_to_those_of_compute(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    refs: list[Any] = []

    def compute(job: Job) -> None:
        refs.extend(job.children(leaf("a")))

    def complete(job: Job) -> None:
        app.enqueue("leaf", parent=refs[0], label="below a")
        job.children(leaf("b", depends_on=[refs[0]]))

    script = Script(app, clock, compute=compute, complete=[OSError("once"), complete])
    parent = script.run()
    assert [(node.step.name, names([n.step for n in node.children])) for node in app.tree(parent).children] == [
        ("a", ["below a"]), ("b", []),
    ]  # fmt: skip
    assert parent.state == "Completed"


def test_the_children_of_an_error_that_was_ignored_are_written(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    def compute(job: Job) -> None:
        job.children(leaf("a"))
        raise OSError("no")

    script = Script(app, clock, compute=compute, retry_exception=False, ignore_exception=True)
    parent = script.run()
    assert (parent.state, names(below(app, parent))) == ("Completed", ["a"])


def test_children_that_were_drafted_by_hand_are_as_their_job_says_and_name_each_other(
    app: Stepwell, clock: ManualClock
) -> None:
    @app.job(retries=7)
    def leaf() -> None: ...

    def compute(job: Job) -> None:
        with pytest.raises(InvalidStep, match="unexpected keyword argument 'n'"):
            app.enqueue_many([NewStep(action="leaf", arguments={"n": 1}, parent=job.step)])
        first = NewStep(action="leaf", label="first", parent=job.step)
        app.enqueue_many([NewStep(action="leaf", label="second", parent=job.step, depends_on=[first]), first])
        app.enqueue_many([NewStep(action="leaf", label="below", parent=first)])

    parent = Script(app, clock, compute=compute).run()
    tree = {node.step.name: names([leaf.step for leaf in node.children]) for node in app.tree(parent).children}
    assert (parent.state, tree) == ("Completed", {"first": ["below"], "second": []})
    assert {step.max_retries for step in app.steps(action="leaf")} == {7}


# Children that cannot be created ------------------------------------------------------------------------------------

BAD: dict[str, NewStep] = {
    "an unknown dependency": NewStep(action="leaf", depends_on=[str(uuid4())]),
    "no name": NewStep(action=""),
    "arguments that cannot be stored": NewStep(action="leaf", arguments={"n": float("nan")}),
    "a key that belongs to another step": NewStep(action="leaf", key="taken", arguments={"n": 2}),
    "a uuid that is none": NewStep(action="leaf", uuid="mine"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("later", [False, True], ids=["at the end", "with a later stage"])
def test_children_that_cannot_be_created_fail_the_step_without_a_retry(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep], bad: str, later: bool
) -> None:
    app.enqueue("leaf", key="taken", delay=3600)

    def compute(job: Job) -> None:
        job.children(leaf("good"), BAD[bad])

    script = Script(app, clock, compute=compute, **({"complete": None} if later else {}))
    step = script.job.enqueue()
    app.run_until_idle()
    parent = app.step(step)
    assert (parent.state, parent.reason, parent.attempts) == ("Failed", "bad_children", 1)
    assert parent.error_message
    assert (len(app.steps(action="leaf")), script.calls) == (1, ["compute"])


NOT_CHILDREN: dict[str, Callable[[Stepwell, NewStep], list[Any]]] = {
    "was passed twice": lambda app, draft: [draft, draft],
    "children(leaf): pass drafts": lambda app, draft: [draft, app.jobs["leaf"]],
    "already exists": lambda app, draft: [draft, [app.enqueue("leaf", key="once")]],
    "children(5): pass drafts": lambda app, draft: [draft, 5],
    "children('leaf'): pass drafts": lambda app, draft: [draft, "leaf"],
    "children({'action': 'leaf'}): pass drafts": lambda app, draft: [draft, {"action": "leaf"}],
    "children(None): pass drafts": lambda app, draft: [[draft, None]],
    "index is": lambda app, draft: [NewStep(action="leaf", index="first")],  # type: ignore[arg-type]
    "depends_on is": lambda app, draft: [NewStep(action="leaf", depends_on=5)],  # type: ignore[arg-type]
    "has a different parent": lambda app, draft: [draft, NewStep(action="leaf", parent=draft)],
    "was not created in this run": lambda app, draft: [NewStep(action="leaf", depends_on=[draft])],
}


@pytest.mark.one_database
@pytest.mark.parametrize("blamed", NOT_CHILDREN)
def test_what_is_no_child_fails_the_step_at_once_and_asks_no_hook(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep], blamed: str
) -> None:
    def compute(job: Job) -> None:
        job.children(*NOT_CHILDREN[blamed](app, leaf("good")))

    script = Script(app, clock, compute=compute, retry_exception=True, ignore_exception=True)
    step = script.run()
    assert (step.state, step.reason, step.attempts) == ("Failed", "bad_children", 1)
    assert blamed in str(step.error_message)
    assert script.calls == ["compute"]
    assert below(app, step) == []


def test_a_child_by_another_way_that_cannot_be_created_fails_the_step_at_once_too(
    app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]
) -> None:
    def compute(job: Job) -> None:
        child = leaf("twice", parent=job.step)
        app.enqueue_many([child, child])

    step = Script(app, clock, compute=compute).run()
    assert (step.state, step.reason, step.attempts) == ("Failed", "bad_children", 1)


def test_drafts_may_come_from_a_generator(app: Stepwell, clock: ManualClock, leaf: Callable[..., NewStep]) -> None:
    script = parent_that(app, clock, lambda step: step.children((leaf(name) for name in "ab"), leaf("c")))
    assert {step.name: step.index for step in below(app, script.run())} == {"a": 1, "b": 1, "c": 2}
