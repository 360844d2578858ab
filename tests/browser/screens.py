"""Every screen of the dashboard, by its address."""

from __future__ import annotations

from tests.browser.shop import Shop


def screens_of(shop: Shop) -> dict[str, str]:
    """Name and path, below `/step-dispatcher`."""
    cause = shop.app.figures.causes(limit=1)[0].fingerprint
    preview = shop.app.operations.preview("retry", state=["Failed"])
    return {
        "overview": "/",
        "steps": "/steps",
        "steps by argument": "/steps?args.source=orders",
        "failed steps": "/steps?state=Failed&state=Stopped",
        "no steps": "/steps?action=never",
        "failed step": f"/steps/{shop.failed}",
        "pending step": f"/steps/{shop.pending}",
        "hostile step": f"/steps/{shop.hostile}",
        "failures": "/failures",
        "one cause": f"/failures/{cause}",
        "operations": "/operations",
        "one operation": "/operations/1",
        "preview": f"/operations/{preview.id}",
        "workflows": "/workflows",
        "tree": f"/workflows/{shop.failed_workflow}",
        "graph": f"/workflows/{shop.failed_workflow}?view=graph",
        "timeline": f"/workflows/{shop.failed_workflow}?view=timeline",
        "one attempt": f"/workflows/{shop.failed_workflow}?view=timeline&attempt=1",
        "schedules": "/schedules",
        "schedule": "/schedules/1",
        "new schedule": "/schedules/new",
        "edited schedule": "/schedules/1/edit?expression=30+2+*+*+*",
        "backfill": "/schedules/1/backfill?first=2026-01-01T00:00&last=2026-01-01T02:00",
        "workers": "/workers",
        "groups": "/groups",
        "group": "/groups/alpha",
        "ticks": "/ticks",
        "shares": "/shares",
        "deploy": "/deploy",
    }
