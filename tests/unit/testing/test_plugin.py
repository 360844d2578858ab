"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

SHOP = """
from stepwell import Stepwell

app = Stepwell("sqlite:///production.db")


@app.job(retries=3, backoff=60)
def charge(order: int) -> str:
    if app.clock.now().minute < 2:
        raise ConnectionError("the bank is closed")
    return f"receipt-{order}"
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(shop=SHOP)
    pytester.syspathinsert()
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *options)


def test_the_plugin_is_found_on_installation_under_the_name_stepwell() -> None:
    [found] = [point for point in entry_points(group="pytest11") if point.name == "stepwell"]
    assert found.value == "pytest_stepwell"


def test_a_run_that_does_not_use_it_imports_nothing_of_stepwell(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_nothing_is_loaded(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("stepwell")
            assert [name for name in sys.modules if name.split(".")[0] == "stepwell"] == []
        """
    )
    run(project).assert_outcomes(passed=1)


def test_the_app_is_bound_to_a_fresh_database_for_each_test_and_put_back(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        import shop
        from stepwell.testing import assert_enqueued, settle

        own = shop.app.database

        @pytest.mark.parametrize("order", [1, 2])
        def test_charge(stepwell_bind, stepwell_clock, order):
            app = stepwell_bind(shop.app)
            assert app is shop.app and app.clock is stepwell_clock
            handle = shop.charge.enqueue(order)
            assert_enqueued(app, shop.charge, {"order": order}, count=1)
            assert settle(app) == 3
            assert handle.result(0) == f"receipt-{order}"

        def test_it_is_put_back():
            assert shop.app.database is own
        """
    )
    run(project).assert_outcomes(passed=3)
    assert not (project.path / "production.db").exists()


def test_stepwell_app_is_the_app_of_the_configuration(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nstepwell_app = shop:app\n")
    project.makepyfile(
        """
        import shop

        def test_charge(stepwell_app, stepwell_url):
            assert stepwell_app is shop.app
            assert stepwell_app.database.url == stepwell_url == "sqlite://"
            shop.charge.enqueue(1)
            stepwell_app.run_until_idle()
        """
    )
    run(project).assert_outcomes(passed=1)


def test_without_a_configured_app_the_fixture_says_what_to_do(project: pytest.Pytester) -> None:
    project.makepyfile("def test_charge(stepwell_app): ...")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*set `stepwell_app = module:variable` in the configuration of pytest*"])


def test_tests_run_on_an_empty_database_like_the_configured_one(project: pytest.Pytester) -> None:
    project.makeini(f"[pytest]\nstepwell_app = shop:app\nstepwell_url = sqlite:///{project.path}/tests.db\n")
    project.makepyfile(
        """
        import pytest, shop

        @pytest.mark.parametrize("order", [1, 2])
        def test_charge(stepwell_app, stepwell_url, order):
            assert stepwell_url.endswith("/scratch.db")
            shop.charge.enqueue(order)
            assert len(stepwell_app.steps()) == 1
        """
    )
    run(project).assert_outcomes(passed=2)
    assert not [*project.path.glob("*.db"), *project.path.glob("stepwell-*")]
