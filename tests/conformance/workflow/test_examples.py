"""The examples, run to their end on both databases."""

from __future__ import annotations

from examples import etl, metrics, orders, release
from stepwell.testing import bound, settle


def test_an_order_waits_for_its_approval_and_is_sent(database_url: str) -> None:
    with bound(orders.app, database_url) as app:
        run = orders.fulfil.start(orders.Order(7, [orders.Line("tea", 2), orders.Line("cup")], gift=True))
        app.run_until_idle()
        assert run.execution().execution_status == "waiting_for_dependencies"
        run.answer(orders.approval, orders.Approval("ann"), who="ann")
        app.run_until_idle()
        assert run.result(orders.parcel) == "2 x tea, 1 x cup in red paper, approved by ann"
        assert run.result(orders.report) == run.result(orders.parcel)
        assert run.state == "complete"
        assert app.check_invariants() == []


def test_an_order_that_cannot_be_paid_is_reported(database_url: str) -> None:
    with bound(orders.app, database_url) as app:
        run = orders.fulfil.start(orders.Order(8))
        app.run_until_idle()
        assert run.state == "error"
        assert "an order needs a line" in run.result(orders.report)


def test_a_load_joins_what_was_read(database_url: str) -> None:
    with bound(etl.app, database_url) as app:
        run = etl.load.start({"files": 10})
        settle(app)
        assert len(run.result(etl.read)) == 9  # one file is empty
        assert run.result(etl.stored) == 10
        assert run.state == "complete"


def test_a_release_stops_at_a_failed_test_and_says_so(database_url: str) -> None:
    with bound(release.app, database_url) as app:
        good, bad = release.release.start({"version": "1"}), release.release.start({"version": "2", "broken": True})
        settle(app)
        assert (good.state, good.result(release.summary)) == ("complete", "released")
        assert bad.state == "error"
        assert "the login page is empty" in bad.result(release.summary)


def test_a_subscriber_counts_runs_and_settled_workflows(database_url: str) -> None:
    with bound(metrics.app, database_url) as app:
        counted = app.events.subscribe(metrics.Metrics())  # the one of the module counts in every test
        for cents in (500, 700, 0):
            metrics.checkout.start({"cents": cents})
        settle(app)
        lines = counted.text().splitlines()
        assert 'steps_total{action="shop.checkout.charge",state="Completed"} 2' in lines
        assert 'steps_total{action="shop.checkout.ship",state="NotRunnable"} 1' in lines
        assert 'workflows_settled_total{name="checkout",status="all_complete"} 2' in lines
        assert 'workflows_settled_total{name="checkout",status="blocked_by_failures"} 1' in lines
        assert any(line.startswith('step_seconds_total{action="shop.checkout.charge"}') for line in lines)
