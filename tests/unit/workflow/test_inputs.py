"""What the parameters of a step take, and what their annotations mean."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Outcome, Stepwell
from stepwell.workflow.template import Input
from tests.unit.workflow.shop import Label, Line, Order, Receipt, Wrap, problems_of


def pay() -> Receipt:
    return Receipt(1.0)


def marks(line: Line) -> Label:
    return Label(1)


def plain(pay: Receipt) -> None: ...
def optional(pay: Receipt | None) -> None: ...
def anything(pay) -> None: ...
def outcome(pay: Outcome[Receipt]) -> None: ...
def bare_outcome(pay: Outcome) -> None: ...  # type: ignore[type-arg]
def optional_outcome(pay: Outcome[Receipt] | None) -> None: ...
def of_other_type(pay: Outcome[Label]) -> None: ...
def joined(marks: list[Label]) -> None: ...
def keeping(marks: list[Label | None]) -> None: ...
def optional_join(marks: list[Label] | None) -> None: ...
def optional_keeping(marks: list[Label | None] | None) -> None: ...
def joined_anything(marks: Any) -> None: ...
def outcomes(marks: list[Outcome[Label]]) -> None: ...
def outcome_of_list(marks: Outcome[list[Label]]) -> None: ...
def no_list(marks: Label) -> None: ...
def wrong(pay: Wrap) -> None: ...
def amount(amount: float) -> None: ...
def no_number(amount: str) -> None: ...
def whole(context: Order) -> None: ...
def fields(id: int, gift: bool, paper: str = "red") -> None: ...
def unknown(colour: str) -> None: ...
def whole_of_other(context: Wrap) -> None: ...
def others(**values: Any) -> None: ...


def declared(app: Stepwell, code: Any, **options: Any) -> Any:
    workflow = app.workflows().workflow("w", context=Order)
    workflow.step(pay)
    workflow.step(each={"line": "context.lines"})(marks)
    workflow.step(**options)(code)
    return workflow


def inputs_of(app: Stepwell, code: Any, **options: Any) -> tuple[Input, ...]:
    return tuple(declared(app, code, **options).check().steps[-1].inputs)


@pytest.mark.parametrize(
    ("code", "trigger", "flags"),
    [
        (plain, "all_concluded", set()),
        (optional, "all_concluded", {"optional"}),
        (anything, "all_concluded", set()),
        (outcome, "all_ended", {"is_outcome"}),
        (outcome, "any_concluded", {"is_outcome"}),
        (bare_outcome, "all_ended", {"is_outcome"}),
        (joined, "all_concluded", {"is_list"}),
        (keeping, "all_concluded", {"is_list", "keeps_skipped"}),
        (optional_join, "all_concluded", {"is_list", "optional"}),
        (optional_keeping, "all_concluded", {"is_list", "optional", "keeps_skipped"}),
        (joined_anything, "all_concluded", {"is_list"}),
        (outcomes, "all_ended", {"is_list", "is_outcome"}),
    ],
)
def test_the_annotation_says_what_a_skipped_input_means(
    app: Stepwell, code: Any, trigger: str, flags: set[str]
) -> None:
    (found,) = inputs_of(app, code, trigger=trigger)
    every = ("optional", "is_list", "keeps_skipped", "is_outcome")
    assert {flag for flag in every if getattr(found, flag)} == flags


@pytest.mark.parametrize(
    ("code", "trigger", "message"),
    [
        (plain, "all_ended", "annotate it Outcome[Receipt]"),
        (plain, "any_concluded", "must be an Outcome"),
        (anything, "all_ended", "must be an Outcome"),
        (optional, "all_ended", "must be an Outcome"),
        (optional_outcome, "all_ended", "must be an Outcome"),
        (joined, "all_ended", "annotate it list[Outcome[Label]]"),
        (outcome_of_list, "all_ended", "annotate it list[Outcome[Label]]"),
        (of_other_type, "all_ended", "annotated Label, but the value is Receipt"),
        (outcome, "all_concluded", "needs trigger 'any_concluded' or 'all_ended'"),
        (outcomes, "all_concluded", "needs trigger 'any_concluded' or 'all_ended'"),
        (no_list, "all_concluded", "annotate it list[Label]"),
        (wrong, "all_concluded", "annotated Wrap, but the value is Receipt"),
    ],
)
def test_an_annotation_that_cannot_take_the_input_is_refused(
    app: Stepwell, code: Any, trigger: str, message: str
) -> None:
    (problem,) = problems_of(declared(app, code, trigger=trigger))
    assert message in problem


def test_a_parameter_takes_the_context_or_a_field_of_it(app: Stepwell) -> None:
    assert [str(each.source) for each in inputs_of(app, whole)] == ["context"]
    assert [str(each.source) for each in inputs_of(app, fields, name="again")] == ["context.id", "context.gift"]


def test_a_context_of_another_type_is_refused(app: Stepwell) -> None:
    assert "annotated Wrap, but the value is Order" in problems_of(declared(app, whole_of_other))[0]


def test_inputs_name_a_path_explicitly(app: Stepwell) -> None:
    (found,) = inputs_of(app, amount, inputs={"amount": "pay.amount"})
    assert str(found.source) == "pay.amount"
    assert (
        "annotated str, but the value is float"
        in problems_of(declared(app, no_number, inputs={"amount": "pay.amount"}))[0]
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("pay.amuont", "the result of 'pay' has no 'amuont'; did you mean 'amount'?"),
        ("context.gft", "the context has no 'gft'; did you mean 'gift'?"),
        ("payy", "unknown step 'payy'; did you mean 'pay'?"),
        ("gift", "did you mean 'context.gift'?"),
        ("marks.number", "is a map: its result is a list"),
        ("pay..amount", "expected a path"),
        (7, "expected a path"),
        ("amount", "depends on itself"),
    ],
)
def test_a_path_to_nowhere_is_refused(app: Stepwell, path: Any, message: str) -> None:
    (problem,) = problems_of(declared(app, amount, inputs={"amount": path}))
    assert message in problem


def test_a_parameter_without_a_source_is_refused_unless_it_has_a_default(app: Stepwell) -> None:
    (problem,) = problems_of(declared(app, unknown))
    assert "parameter 'colour' is neither a step nor a known field of the context" in problem
    assert problems_of(declared(app, unknown, arguments={"colour": "red"}, action="other")) == []


def test_constants_are_checked_against_the_annotation(app: Stepwell) -> None:
    (wrong_type,) = problems_of(declared(app, unknown, arguments={"colour": 3}))
    assert "arguments: colour: Expected `str`, got `int`" in wrong_type
    assert any(
        "no parameter 'color'; did you mean 'colour'?" in each
        for each in problems_of(declared(app, unknown, arguments={"color": "red"}))
    )


def test_a_parameter_has_one_source(app: Stepwell) -> None:
    both = declared(app, unknown, arguments={"colour": "red"}, inputs={"colour": "context.id"})
    assert "two sources" in problems_of(both)[0]


def test_extra_keywords_take_explicit_inputs_only(app: Stepwell) -> None:
    (found,) = inputs_of(app, others, inputs={"money": "pay"})
    assert (found.parameter, str(found.source)) == ("money", "pay")


def test_an_annotation_that_python_cannot_resolve_is_refused(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")
    workflow.step(pay)

    class Hidden: ...

    @workflow.step
    def mystery(pay: Hidden | None) -> None: ...

    assert "cannot be resolved" in problems_of(workflow)[0]
