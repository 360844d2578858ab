"""The content of templates: hashes, versions, and the way through YAML and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell import Outcome, Stepwell, Workflow, WorkflowDefinitionError
from stepwell.workflow.declare.words import version_key
from tests.unit.workflow import shop


def code(number: Any = 0, *, text: str = "", others: list[int] | None = None) -> int:
    return 1


def other_code(number: Any = 0) -> int:
    return 2


def ended(first: Outcome[int], number: Any = 0) -> int:
    return 3


def declare(app: Stepwell, **options: Any) -> Workflow[Any]:
    workflow = app.workflows().workflow("w", context={"properties": {"n": {}}}, replace=True)
    workflow.step(**{"name": "x", **options})(code)
    return workflow


def test_the_hash_does_not_depend_on_description_or_order(app: Stepwell) -> None:
    hashes = set()
    for description, names in (("one", ("a", "b")), ("two", ("b", "a"))):
        workflow = app.workflows().workflow("w", description=description, replace=True)
        for name in names:
            workflow.step(name=name)(code)
        hashes.add(workflow.check().content_hash())
    assert len(hashes) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 1}, {"retry_limit": 4}, {"retryable": False}, {"skippable": True}, {"queue": "q"}, {"delay": 1},
        {"when": {"context.n": 1}}, {"when": {"context.n": True}}, {"arguments": {"number": 1}},
        {"inputs": {"number": "context.n"}}, {"each": {"number": "context.n"}}, {"trigger": "all_ended"},
        {"priority": "high"}, {"name": "y"}, {"action": "other"},
    ],
)  # fmt: skip
def test_what_matters_for_a_run_changes_the_hash(app: Stepwell, options: dict[str, Any]) -> None:
    assert declare(app).check().content_hash() != declare(app, **options).check().content_hash()


def test_typed_values_have_different_hashes(app: Stepwell) -> None:
    hashes = {declare(app, when={"context.n": value}).check().content_hash() for value in (1, True, "1", None, [[1]])}
    assert len(hashes) == 5


def test_the_same_version_with_other_content_is_refused(app: Stepwell) -> None:
    for timeout in (1, 2):
        app.workflows().workflow("w").step(timeout=timeout)(code)
    with pytest.raises(WorkflowDefinitionError, match="declared twice with different content"):
        app.workflows.check()


def test_the_same_version_with_the_same_content_is_one_workflow(app: Stepwell) -> None:
    for _ in range(2):
        app.workflows().workflow("w").step(timeout=1)(code)
    assert len(app.workflows.check()) == 1


def test_in_development_a_version_can_be_replaced_with_its_code(app: Stepwell) -> None:
    app.workflows().workflow("w").step(name="x", timeout=1)(code)
    app.workflows.check()
    app.workflows().workflow("w", replace=True).step(name="x", timeout=2)(other_code)
    (template,) = app.workflows.check()
    assert template.step("x").timeout == 2
    assert app.jobs["w.x"].code is other_code


def test_versions_are_ordered_by_number() -> None:
    ordered = ["0.9", "1-rc.1", "1", "1.9", "1.10", "2", "9", "10", "2026.1"]
    shuffled = ordered[::-1]
    assert sorted(shuffled, key=version_key) == ordered


# Through YAML and back -------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
tricky = st.sampled_from(
    [
        "on",
        "no",
        "12:30",
        "010",
        "1e3",
        "null",
        "~",
        "2026-01-01",
        "",
        " x ",
        "a: b",
        "#",
        "<<",
        "=",
        "\n",
        "é\u2028\x85\ufeff",
    ]
)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts | tricky
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | tricky, inner, max_size=3),
    max_leaves=6,
)
schemas = st.none() | st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from(["n", "list", "on"]), st.fixed_dictionaries({"default": values}))}
)
seconds = st.integers(0, 10**6) | st.floats(0, 10**6)
step_settings = st.fixed_dictionaries(
    {},
    optional={
        "retry_limit": st.integers(1, 9),
        "retryable": st.booleans(),
        "skippable": st.booleans(),
        "timeout": seconds,
        "cooldown": seconds,
        "delay": seconds,
        "queue": st.sampled_from(["on", "slow queue", "12:30", "é"]),
        "priority": st.sampled_from(["default", "high"]),
        "arguments": st.fixed_dictionaries({}, optional={"number": values, "text": texts | tricky}),
    },
)


@st.composite
def declarations(draw: Any) -> list[dict[str, Any]]:
    """Steps that depend on earlier ones only, so that they can be declared."""
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 5))):
        names = [step["name"] for step in steps]
        earlier = st.sampled_from(names) if names else st.nothing()
        step: dict[str, Any] = {"name": draw(st.sampled_from(["s", "no", "step-"])) + str(number)}
        step["after"] = draw(st.lists(earlier, max_size=2)) if names else []
        paths = st.just("context.n") | earlier if names else st.just("context.n")
        step["when"] = draw(st.dictionaries(paths, values | st.lists(values, min_size=1, max_size=3), max_size=2))
        step["kind"] = draw(st.sampled_from(["job", "map", "gate"]))
        step["settings"] = draw(step_settings)
        step["trigger"] = draw(st.sampled_from(["all_concluded", "any_concluded", "all_ended"]))
        if (
            step["kind"] == "job"
            and names
            and step["trigger"] == "all_concluded"
            and "number" not in step["settings"].get("arguments", {})
        ):
            step["inputs"] = {"number": draw(earlier)}
        step["limit"] = draw(st.none() | st.integers(1, 9))
        step["schema"] = draw(schemas)
        step["expires"] = draw(st.none() | seconds)
        steps.append(step)
    return steps


def build(workflow: Any, steps: list[dict[str, Any]]) -> None:
    for step in steps:
        graph = {
            "name": step["name"],
            "after": step["after"],
            "when": {k: v for k, v in step["when"].items() if v != []},
            "trigger": step["trigger"],
        }
        options = dict(step["settings"])
        if step["kind"] == "gate":
            workflow.gate(
                result=step["schema"], expires=step["expires"], skippable=options.get("skippable", False), **graph
            )
            continue
        if step["kind"] == "map":
            options["arguments"] = {k: v for k, v in options.get("arguments", {}).items() if k != "number"}
            graph["each"] = {"number": "context.n"}
            if step["limit"] is not None:
                options["limit"] = step["limit"]
        workflow.step(inputs=step.get("inputs", {}), **graph, **options)(code)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(declarations(), schemas, texts | tricky, st.dictionaries(st.sampled_from(["production", "no"]), step_settings))
def test_a_template_exported_and_loaded_again_is_the_same(
    steps: list[dict[str, Any]], context: Any, description: str, overrides: dict[str, Any]
) -> None:
    app = Stepwell("sqlite://")
    if context is not None and steps:
        context["properties"].setdefault("n", {})
    target = next((step for step in steps if step["kind"] == "job" and "inputs" not in step), None)
    environments = {name: {target["name"]: each} for name, each in overrides.items()} if target else {}
    workflow = app.workflows("no").workflow(
        "w", version="1.10", context=context, description=description, environments=environments
    )
    build(workflow, steps)
    template = workflow.check()
    text = workflow.export()
    (loaded,) = app.workflows.load_yaml(text)
    assert loaded.check() == template
    assert loaded.check().content_hash() == template.content_hash()
    assert loaded.export() == text
    assert loaded.template("production") == workflow.template("production")


def test_the_main_program_has_the_name_under_which_it_is_imported(tmp_path: Any) -> None:
    import subprocess
    import sys

    (tmp_path / "flows.py").write_text(
        "from stepwell import Stepwell\n"
        "app = Stepwell('sqlite://')\n"
        "class Order:\n    pass\n"
        "w = app.workflows().workflow('w')\n"
        "@w.step\n"
        "def one() -> int:\n    return 1\n"
        "print(w.check().content_hash())\n"
    )
    runs = [[sys.executable, "flows.py"], [sys.executable, "-m", "flows"], [sys.executable, "-c", "import flows"]]
    printed = {subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout for run in runs}
    assert len(printed) == 1


def test_the_example_survives_every_form(app: Stepwell) -> None:
    text = shop.declare_fulfil(app).export()
    (loaded,) = app.workflows.load_yaml(text)
    assert loaded.export() == text
