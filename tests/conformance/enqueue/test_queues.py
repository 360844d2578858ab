"""Which queues there are: the usual ones, what the app adds, what its jobs name; everything else is `default`."""

from __future__ import annotations

import pytest

from stepwell import NewStep, State, Stepwell, StepwellError
from stepwell.run.claim import Claimer
from tests.conformance.support.engine import Engine


def queue_of(app: Stepwell, queue: str) -> str | None:
    return app.step(app.enqueue("behave", queue=queue)).queue


def test_what_the_app_adds_exists_from_then_on_and_for_everybody(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as other:
        assert queue_of(other, "emails") == "default"
        with Stepwell(shared_database_url, queues=["emails"]) as app:
            assert queue_of(app, "emails") == "emails"
        assert queue_of(other, "emails") == "emails"
        assert queue_of(other, "letters") == "default"


def test_what_a_job_names_exists_before_any_worker_for_it_ran(engine: Engine) -> None:
    @engine.app.job(queue="emails")
    def send() -> None: ...

    one = send.enqueue()
    many = engine.app.enqueue_many([send.draft(), NewStep(action="behave", queue="letters")])
    assert [engine.app.step(ref).queue for ref in (one, *many)] == ["emails", "emails", "default"]
    assert (
        queue_of(Stepwell(engine.app.database.url) if engine.app.database.is_shared else engine.app, "emails")
        == "emails"
    )


def test_a_queue_that_a_job_names_exists_for_rows_of_plain_sql_too(engine: Engine) -> None:
    @engine.app.job(queue="emails")
    def send() -> None: ...

    engine.change("INSERT INTO steps (action, queue) VALUES ('send', 'emails'), ('send', 'letters')")
    engine.app.dispatcher().run_until_quiet()
    assert sorted(str(step.queue) for step in engine.app.steps()) == ["default", "emails"]


def test_a_worker_without_queues_serves_those_of_its_jobs(engine: Engine) -> None:
    @engine.app.job(queue="emails")
    def send() -> None: ...

    ref = send.enqueue()
    assert engine.app.run_until_idle() == 1
    assert engine.app.step(ref).state is State.COMPLETED
    worker = engine.app.worker()
    assert {"default", "priority", "emails"} < set(worker.row.queues)
    worker.row.unregister()


def test_a_worker_without_queues_claims_the_oldest_step_of_all_of_them(engine: Engine) -> None:
    refs = [engine.app.enqueue("behave", queue=queue) for queue in ("indicators", "default", "candles")]
    worker = engine.app.worker()
    claimer = Claimer(engine.app.database, worker.row)
    claims = engine.app.database.transact(lambda tx: claimer.claim(tx, 3))
    assert [claim.step_id for claim in claims] == [ref.id for ref in refs]


@pytest.mark.parametrize("wrong", [[""], [7], [None]])
def test_a_name_that_is_none_is_refused(wrong: list[str]) -> None:
    with pytest.raises(StepwellError, match="is not the name of a queue"):
        Stepwell("sqlite://", queues=wrong)
