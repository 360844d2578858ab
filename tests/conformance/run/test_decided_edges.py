"""Edge cases that could have been decided otherwise: bytes without a type, and no run that may end uncompleted."""

from __future__ import annotations

from typing import Any

from stepwell import NOT_COMPLETED, State, Stepwell


def test_bytes_arrive_as_bytes_where_the_parameter_says_so_and_else_as_base64(app: Stepwell) -> None:
    @app.job
    def typed(data: bytes) -> list[Any]:
        return [type(data).__name__, data.hex()]

    @app.job
    def untyped(data) -> list[Any]:
        return [type(data).__name__, data]

    steps = [typed.enqueue(b"hi\xff"), untyped.enqueue(b"hi\xff")]
    app.run_until_idle()
    assert [app.step(step).arguments for step in steps] == [{"data": "aGn/"}] * 2
    assert [app.step(step).response for step in steps] == [["bytes", "6869ff"], ["str", "aGn/"]]


def test_with_max_not_completed_0_the_first_uncompleted_run_fails_the_step(app: Stepwell) -> None:
    job = app.job(name="never", max_not_completed=0)(lambda: NOT_COMPLETED)
    step = job.enqueue()
    app.run_until_idle()
    ended = app.step(step)
    assert (ended.state, ended.reason, ended.attempts) == (State.FAILED, "not_completed", 1)
