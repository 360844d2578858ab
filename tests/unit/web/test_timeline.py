"""Timelines: spans from a history, an axis without idle stretches, and bars that can be seen."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from stepwell.look import palette
from stepwell.model.states import State
from stepwell.model.step import Transition
from stepwell.web.draw import timeline
from stepwell.web.draw.axis import CUT_WIDTH, axis_for
from stepwell.web.draw.charts import sparkline
from stepwell.web.draw.spans import noteworthy, spans_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def history(*changes: tuple[float, State, int, str | None]) -> list[Transition]:
    found: list[Transition] = []
    for seconds, state, attempt, error in changes:
        found.append(
            Transition(
                id=len(found), step_id=1, from_state=found[-1].to_state if found else None, to_state=state, reason=None,
                actor=None, at=at(seconds), attempt=attempt, error=error,
            )
        )  # fmt: skip
    return found


RETRIED = history(
    (0, State.PENDING, 0, None),
    (2, State.DISPATCHED, 0, None),
    (3, State.RUNNING, 1, None),
    (5, State.PENDING, 1, "no answer"),
    (9, State.DISPATCHED, 1, None),
    (9, State.RUNNING, 2, None),
    (14, State.COMPLETED, 2, None),
)


def test_a_history_becomes_waits_and_attempts() -> None:
    spans = spans_of(RETRIED)
    assert [span.kind for span in spans] == ["waits", "queued", "runs", "delayed", "queued", "runs"]
    assert [span.error for span in spans if span.kind == "runs"] == ["no answer", None]
    assert spans[-1].end == at(14)


def test_a_parent_waits_for_its_children_after_its_own_code() -> None:
    spans = spans_of(history((0, State.PENDING, 0, None), (1, State.RUNNING, 1, None)), own_code_done_at=at(4))
    assert [(span.kind, span.end) for span in spans] == [("waits", at(1)), ("runs", at(4)), ("children", None)]


def test_a_long_idle_stretch_is_cut_and_the_order_of_moments_is_kept() -> None:
    axis = axis_for([(at(0), at(10)), (at(7_200), at(7_210))], at(0), at(7_210), 1_000)
    (cut,) = axis.cuts
    assert cut.right - cut.left == CUT_WIDTH
    moments = [axis.x(at(seconds)) for seconds in (0, 5, 10, 3_600, 7_200, 7_205, 7_210)]
    assert moments == sorted(moments)
    assert axis.x(at(10)) - axis.x(at(0)) > 400


def test_a_short_run_is_still_visible() -> None:
    spans = spans_of(history((0, State.PENDING, 0, None), (5_000, State.RUNNING, 1, None)))
    row = timeline.Row("1", "fetch", palette.RUNNING, spans)
    drawn = str(timeline.draw([row], at(5_000.001), label="steps"))
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*class="span', drawn)]
    assert widths
    assert min(widths) >= 3


def test_errors_in_a_timeline_are_escaped_and_without_secrets() -> None:
    spans = spans_of(
        history(
            (0, State.PENDING, 0, None),
            (1, State.RUNNING, 1, None),
            (2, State.FAILED, 1, "<script> password=hunter2 "),
        )
    )
    drawn = str(timeline.draw_life(spans, at(3), label="life"))
    assert "<script>" not in drawn
    assert "hunter2" not in drawn


def test_a_chart_shows_gaps_as_gaps() -> None:
    drawn = str(sparkline([1.0, 2.0, None, 4.0, 3.0], label="p95"))
    assert drawn.count("<polyline") == 2
    assert "<svg" in str(sparkline([], label="empty"))


def test_the_scale_has_round_steps_and_none_where_time_is_cut() -> None:
    spans = spans_of(history((0, State.PENDING, 0, None), (1, State.RUNNING, 1, None), (37, State.COMPLETED, 1, None)))
    row = timeline.Row("1", "fetch", palette.COMPLETED, spans)
    assert _scale_of(str(timeline.draw([row], at(37), label="steps"))) == [
        "0", "+5 s", "+10 s", "+15 s", "+20 s", "+25 s", "+30 s", "+35 s"
    ]  # fmt: skip
    spans = spans_of(
        history(
            (0, State.PENDING, 0, None),
            (1, State.RUNNING, 1, None),
            (9, State.PENDING, 1, "no answer"),
            (7_200, State.RUNNING, 2, None),
            (7_209, State.COMPLETED, 2, None),
        )
    )
    row = timeline.Row("1", "fetch", palette.COMPLETED, spans)
    assert _scale_of(str(timeline.draw([row], at(7_209), label="steps"))) == ["0", "+120 min", "// 119 min"]


def _scale_of(drawn: str) -> list[str]:
    return re.findall(r'<text [^>]*y="14"[^>]*>([^<]*)</text>', drawn)


def test_waits_that_took_no_time_are_not_listed_and_every_attempt_is() -> None:
    spans = spans_of(
        history(
            (0, State.PENDING, 0, None),
            (4, State.DISPATCHED, 0, None),
            (4.01, State.RUNNING, 1, None),
            (4.02, State.COMPLETED, 1, None),
        )
    )
    assert [span.kind for span in noteworthy(spans)] == ["waits", "runs"]


def test_a_life_has_no_text_that_would_be_stretched() -> None:
    drawn = str(timeline.draw_life(spans_of(RETRIED), at(20_000), label="life"))
    assert "<text" not in drawn
    assert 'preserveAspectRatio="none"' in drawn
