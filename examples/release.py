"""A release as a graph: build once, test in parallel, deploy region by region, and roll back if anything failed."""

from __future__ import annotations

from stepwell import Outcome, Permanent, Stepwell

app = Stepwell("sqlite:///release.db")
release = app.workflows().workflow(
    "release", context={"properties": {"version": {"type": "string"}, "broken": {"type": "boolean", "default": False}}}
)


@release.step
def build(version: str) -> str:
    return f"image:{version}"


@release.step
def unit_tests(build: str) -> int:
    return 120


@release.step(retry_limit=2)
def browser_tests(build: str, broken: bool) -> int:
    if broken:
        raise Permanent("the login page is empty")
    return 17


@release.step(after=[unit_tests, browser_tests])
def staging(build: str) -> str:
    return f"{build} on staging"


@release.step(after=[staging])
def europe(build: str) -> str:
    return f"{build} in Europe"


@release.step(after=[europe])
def asia(build: str) -> str:
    return f"{build} in Asia"


@release.step(trigger="all_ended")
def summary(europe: Outcome[str], asia: Outcome[str]) -> str:
    return "released" if asia.completed else f"rolled back: {europe.error or asia.error}"
