"""Two transactions on PostgreSQL that end the last steps of a workflow, held at the worst moment."""

from __future__ import annotations

import pytest

from stepwell import Stepwell
from tests.conformance.support.asides import Aside
from tests.conformance.support.engine import Engine, failed, returned
from tests.conformance.workflow.flows import job, row_of, start, steps_of


@pytest.fixture
def database_url(postgres_url: str) -> str:
    return postgres_url


@pytest.mark.parametrize("second", ["completes", "fails"])
def test_of_two_transactions_that_end_the_last_two_steps_the_second_settles(engine: Engine, second: str) -> None:
    app = engine.app
    flow = start(app, job("a"), job("b"))
    engine.refs |= {name: step.ref for name, step in steps_of(app, flow).items()}
    with engine.worker() as runner:
        one, other = engine.claim(runner, "a", "b")

        def end_the_other(aside: Stepwell) -> None:
            if second == "completes":
                returned(aside._finisher, other, None)
            else:
                failed(aside._finisher, other, "no")

        asides: list[Aside] = []

        def hold(tx: object, touched: object) -> None:
            """The first transaction has looked at the steps, but has not committed."""
            if not asides:
                asides.append(Aside(app.database.url, engine.clock, end_the_other))
                asides[0].waits()

        app.database.hooks.before_commit("workflow", hold)
        returned(app._finisher, one, None)
        asides[0].ends()
    assert row_of(app, flow).state == ("complete" if second == "completes" else "error")
