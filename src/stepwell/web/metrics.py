"""`/metrics` for Prometheus: the figures of the database at the moment of the scrape. Needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stepwell.app import Stepwell
from stepwell.model.errors import StepwellError
from stepwell.web.api.errors import problem_of
from stepwell.web.health import health
from stepwell.web.problems import HttpProblem
from stepwell.web.site import Site

_MISSING: Final = "metrics need the package prometheus-client, which is not installed"
_HELP: Final = "pip install 'stepwell[metrics]'"
_VERDICTS: Final = {"ok": 0, "warn": 1, "red": 2}


class _Figures:
    """A collector of prometheus-client: called for every scrape."""

    def __init__(self, app: Stepwell, version: str) -> None:
        self._app = app
        self._version = version

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

        app, figures = self._app, self._app.figures
        totals = figures.totals()
        yield InfoMetricFamily("stepwell", "The version.", value={"version": self._version})
        steps = GaugeMetricFamily("stepwell_steps", "Steps by state; the states are disjoint.", labels=["state"])
        for state, number in totals.states.items():
            steps.add_metric([state], number)
        yield steps
        parts = GaugeMetricFamily(
            "stepwell_steps_part", "Parts of Pending (child_pending, throttled) and Running.", labels=["part"]
        )
        for name in ("child_pending", "child_running", "throttled"):
            parts.add_metric([name], getattr(totals, name))
        yield parts
        unfinished = GaugeMetricFamily(
            "stepwell_unfinished_steps", "Unfinished steps by action and state.", labels=["action", "state"]
        )
        for row in figures.classes(active_only=False):
            for state in ("pending", "dispatched", "running"):
                unfinished.add_metric([row.action, state], getattr(row, state))
        yield unfinished
        queued = GaugeMetricFamily(
            "stepwell_group_queued_steps", "Pending and Dispatched steps by group.", labels=["group"]
        )
        for group in figures.groups():
            queued.add_metric([group.group], group.queued)
        yield queued
        workers = GaugeMetricFamily("stepwell_workers", "Live workers by host.", labels=["host"])
        slots = GaugeMetricFamily("stepwell_worker_slots", "Slots of live workers by host.", labels=["host"])
        for host in figures.hosts():
            workers.add_metric([host.host], host.workers if host.alive else 0)
            slots.add_metric([host.host], host.slots if host.alive else 0)
        yield workers
        yield slots
        yield GaugeMetricFamily(
            "stepwell_dispatching", "1 while steps are dispatched.", value=app.breaker.state().dispatching
        )
        oldest = figures.oldest_ready()
        waited = 0.0 if oldest is None else max(0.0, (app.database.now() - oldest).total_seconds())
        yield GaugeMetricFamily(
            "stepwell_oldest_ready_seconds", "How long the oldest ready step has been ready.", value=waited
        )
        checks = GaugeMetricFamily("stepwell_health", "0 ok, 1 warning, 2 red, by check.", labels=["check"])
        worst: dict[str, int] = {}
        for check in health(app).checks:
            worst[check.name] = max(worst.get(check.name, 0), _VERDICTS[check.verdict])
        for name, verdict in worst.items():
            checks.add_metric([name], verdict)
        yield checks


def metrics_route(site: Site) -> Route:
    async def metrics(request: Request) -> Response:
        try:
            from prometheus_client import CollectorRegistry, generate_latest
            from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
        except ImportError:
            raise HttpProblem(501, _MISSING, _HELP) from None
        registry = CollectorRegistry(auto_describe=False)

        def collect() -> bytes:
            registry.register(_Figures(site.app, site.version))
            return generate_latest(registry)

        try:
            text = await site.read(collect)
        except StepwellError as error:
            problem = problem_of(error)
            raise HttpProblem(problem.status, problem.detail) from error
        return Response(text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    return Route("/metrics", metrics, methods=["GET"])
