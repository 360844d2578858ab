"""The API keeps to its OpenAPI document, whatever it is sent."""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import ignored_auth

from stepwell import Stepwell
from stepwell.web import Role
from tests.conformance.web.support import TOKENS, web

# Random ones, per endpoint and database, besides those that cover every keyword of the schema.
EXAMPLES = int(os.environ.get("STEPWELL_SCHEMA_EXAMPLES", "5"))
# The same examples in every run; another seed and more examples look for what these do not find.
SEED = int(os.environ.get("STEPWELL_SCHEMA_SEED", "1"))
HEADERS = {"Authorization": f"Bearer {TOKENS[Role.ADMIN].secret}"}
CONFIG = {
    "headers": HEADERS,
    # What no schema can say (a cron expression, a known job, the state of a step) is 404, 409 or 422.
    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "422"]}},
}


def with_history(app: Stepwell) -> None:
    @app.job()
    def work(number: int = 0) -> int:
        return 1 // number

    app.enqueue("work", {"number": 1})
    app.enqueue("work", {"number": 0}, max_retries=0)
    app.run_until_idle()
    app.enqueue("work", {"number": 2}, delay=60)
    app.schedules.create("nightly", "30 2 * * *", "work", who="ann")


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_endpoint_keeps_to_the_document(app: Stepwell, mode: GenerationMode) -> None:
    with_history(app)
    made = web(app, hosts=["testserver", "localhost"])
    config = SchemathesisConfig.from_dict(CONFIG)
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", made, config=config, headers=HEADERS)
    problems = []
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()

        @seed(SEED)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(headers=HEADERS, excluded_checks=[ignored_auth])

        try:
            check()
        except Unsatisfiable:  # this endpoint takes nothing that could be wrong
            assert mode is GenerationMode.NEGATIVE
        except (AssertionError, BaseExceptionGroup) as error:
            problems.append(f"{operation.label}: {error}")
    assert not problems, "\n\n".join(problems)
