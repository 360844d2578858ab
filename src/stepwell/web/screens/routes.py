"""The routes of the screens. Paths are relative to `/step-dispatcher`."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from stepwell.web.screens import (
    deploy,
    failures,
    go,
    machines,
    operations,
    overview,
    schedules,
    step,
    step_actions,
    steps,
    workflow,
    workflow_actions,
    workflows,
)
from stepwell.web.screens.pages import Action, Pages, Screen
from stepwell.web.screens.static import static_file
from stepwell.web.site import Site
from stepwell.web.visitor import Role


def routes(site: Site) -> list[BaseRoute]:
    pages = Pages(site)

    def show(path: str, screen: Screen) -> Route:
        return Route(path, pages.screen(screen), methods=["GET"])

    def act(path: str, action: Action, role: Role = Role.OPERATE) -> Route:
        return Route(path, pages.action(action, role), methods=["POST"])

    return [
        Route("/static/{version}/{name}", static_file, methods=["GET"]),
        show("/", overview.overview),
        show("/steps", steps.steps),
        show("/steps/{id}", step.step),
        act("/steps/{id}/retry", step_actions.retry),
        act("/steps/{id}/reset", step_actions.reset_attempts),
        act("/breaker/pause", step_actions.pause),
        act("/breaker/resume", step_actions.resume),
        show("/failures", failures.failures),
        show("/failures/{fingerprint}", failures.failure),
        show("/operations", operations.operations),
        act("/operations/preview", operations.preview),
        show("/operations/{id}", operations.operation),
        act("/operations/{id}/execute", operations.execute),
        act("/operations/{id}/undo", operations.undo),
        act("/operations/{id}/resume", operations.resume),
        show("/workflows", workflows.workflows),
        show("/workflows/{id}", workflow.workflow),
        act("/workflows/{id}/{what}", workflow_actions.act),
        show("/schedules", schedules.schedules),
        show("/schedules/new", schedules.new_schedule),
        act("/schedules/new", schedules.create, Role.ADMIN),
        show("/schedules/{id}", schedules.schedule),
        show("/schedules/{id}/edit", schedules.edit_schedule),
        act("/schedules/{id}/edit", schedules.save, Role.ADMIN),
        act("/schedules/{id}/delete", schedules.delete, Role.ADMIN),
        act("/schedules/{id}/reset", schedules.reset, Role.ADMIN),
        act("/schedules/{id}/do/{what}", schedules.act),
        show("/schedules/{id}/backfill", schedules.backfill),
        act("/schedules/{id}/backfill", schedules.run_backfill),
        show("/workers", machines.workers),
        show("/groups", machines.groups),
        show("/groups/{group}", machines.group),
        show("/ticks", machines.ticks),
        show("/shares", machines.shares),
        show("/deploy", deploy.deploy),
        show("/go", go.go),
        show("/go/{prefix}", go.go),
    ]
