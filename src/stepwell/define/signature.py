"""A job's parameters and result type, by its annotations: checked when a step is created, converted when it runs."""

from __future__ import annotations

import inspect
import logging
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

import msgspec

from stepwell.model import codec
from stepwell.model.errors import InvalidStep, StepwellError

_LOGGER: Final = logging.getLogger("stepwell.jobs")

_SIMPLE: Final = (str, int, bool, float)


class Signature:
    """The parameters of a callable, and the type of its result.

    >>> from decimal import Decimal
    >>> def pay(amount: Decimal, times: int = 1) -> list[Decimal]: ...
    >>> pay_signature = Signature("pay", pay, pay)
    >>> pay_signature.arguments((Decimal("1.50"),), {})
    {'amount': Decimal('1.50')}
    >>> pay_signature.typed({"amount": "1.50", "times": 2})
    {'amount': Decimal('1.50'), 'times': 2}
    >>> pay_signature.arguments(("many",), {})
    Traceback (most recent call last):
    ...
    stepwell.model.errors.InvalidStep: pay: amount: Invalid decimal string; nothing was written
    """

    def __init__(self, action: str, constructor: Callable[..., Any], compute: Callable[..., Any]) -> None:
        self._action = action
        self._signature = inspect.signature(constructor)
        self._extras: str | None = None  # the name of **kwargs
        for parameter in self._signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                raise StepwellError(
                    f"{action}({parameter}): arguments are stored by name; use parameters that can be passed by name"
                )
            if parameter.kind is parameter.VAR_KEYWORD:
                self._extras = parameter.name
        parameters = self._signature.parameters.values()
        self._names = dict.fromkeys(self._signature.parameters)  # in their order
        self._by_position = tuple(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)
        self._needed = frozenset(each.name for each in parameters if each.default is each.empty)
        hints = hints_of(constructor)
        self._types: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.name == self._extras:
                continue
            hint = decodable(hints.get(parameter.name))
            if hint is not Any:
                self._types[parameter.name] = hint
            elif _is_specific(hints.get(parameter.name, parameter.annotation)):
                _warn(action, f"its parameter {parameter.name}", hints.get(parameter.name, parameter.annotation))
        annotated = hints_of(compute).get("return")
        self._result = decodable(annotated)
        if self._result is Any and _is_specific(annotated):
            _warn(action, "its result", annotated)

    def problem_of_required(self, names: Iterable[str]) -> str | None:
        """Why a call may leave one of these arguments out, or None: then every step has all of them."""
        for name in names:
            if name not in self._names or name == self._extras:
                return f"there is no parameter {name!r}"
            if name not in self._needed:
                return f"the parameter {name!r} has a default, so a step may lack it; use a function of the arguments"
        return None

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by their names; rejects those that the callable would not accept."""
        try:
            arguments = self._bound(args, kwargs)
        except TypeError as error:
            raise InvalidStep(f"{self._action}: {error}; nothing was written") from error
        for name, hint in self._types.items():
            if name in arguments and not (type(arguments[name]) is hint and hint in _SIMPLE):
                self._check(name, hint, arguments[name])
        return arguments

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by their names, in the order of the parameters; raises TypeError as the call would."""
        given = {**dict(zip(self._by_position, args, strict=False)), **kwargs} if args else kwargs
        fits = len(given) == len(args) + len(kwargs) and self._needed <= given.keys() <= self._names.keys()
        if fits and self._extras is None:
            return {name: given[name] for name in self._names if name in given}
        arguments = dict(self._signature.bind(*args, **kwargs).arguments)  # slower, but raises a precise error
        if self._extras is not None:
            arguments |= arguments.pop(self._extras, {})
        return arguments

    def _check(self, name: str, hint: Any, value: Any) -> None:
        """Check the value as it will arrive: after a JSON round trip."""
        stored = codec.decode(codec.encode(value, f'arguments["{name}"]'))
        try:
            convert(stored, hint)
        except (ValueError, TypeError) as error:
            raise InvalidStep(f"{self._action}: {name}: {error}; nothing was written") from error

    def typed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Stored arguments converted to the annotated types; raises ValueError or TypeError if one does not fit."""
        return self.typed_some(self._bound((), arguments))

    def typed_some(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The same for a part of the arguments."""
        typed = dict(arguments)
        for name, hint in self._types.items():
            if name in typed and not (type(typed[name]) is hint and hint in _SIMPLE):
                try:
                    typed[name] = convert(typed[name], hint)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"{name}: {error}") from error
        return typed

    def problems_of_names(self, names: Collection[str]) -> Iterator[str]:
        """Why a call with arguments of these names is not possible."""
        try:
            self._signature.bind(**dict.fromkeys(names))
        except TypeError as error:
            yield str(error)

    def problems_of_value(self, name: str, value: Any) -> Iterator[str]:
        """Why a stored value is not one of this parameter's type."""
        if name in self._types:
            try:
                convert(value, self._types[name])
            except (ValueError, TypeError) as error:
                yield f"{name}: {error}"

    def result(self, stored: Any) -> Any:
        """A stored result converted to the annotated type; raises ValueError or TypeError if it does not fit."""
        return stored if self._result is Any or stored is None else convert(stored, self._result)

    def result_or_stored(self, stored: Any) -> Any:
        """The same, or the stored value if it does not fit."""
        try:
            return self.result(stored)
        except (ValueError, TypeError):
            return stored


def hints_of(code: Callable[..., Any]) -> dict[str, Any]:
    """Its annotations, except those that cannot be resolved (a name that exists only for the type checker)."""
    target: Any = code.__init__ if isinstance(code, type) else code  # type: ignore[misc]
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:
        target = inspect.unwrap(target)
        annotations = getattr(target, "__annotations__", {}).items()
        return {name: hint for name, annotation in annotations if (hint := _hint(annotation, target)) is not None}


def _hint(annotation: Any, target: Any) -> Any:
    alone = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(alone, getattr(target, "__globals__", {}), include_extras=True)["it"]
    except Exception:
        return None


def _is_specific(hint: Any) -> bool:
    """Whether an annotation asks for something other than plain JSON data."""
    return hint not in (None, Any, object, type(None), typing.NoReturn, typing.Never, inspect.Parameter.empty)


def _warn(action: str, what: str, hint: Any) -> None:
    _LOGGER.warning(
        "job %s: %s arrives as plain data (dicts, lists, strings, numbers) because JSON cannot be converted to %s; "
        "annotate it with a type that can be decoded from JSON, or as Any",
        action,
        what,
        hint if isinstance(hint, str) else inspect.formatannotation(hint),
    )


def decodable(hint: Any) -> Any:
    """The type itself, or Any if it cannot be decoded from JSON."""
    if hint is None or hint is Any or hint is inspect.Parameter.empty:
        return Any
    if hint is type(None):
        return Any
    try:
        msgspec.json.Decoder(hint, dec_hook=_make)
    except Exception:
        return Any
    return hint


def convert(value: Any, hint: Any) -> Any:
    return msgspec.convert(value, hint, str_keys=True, dec_hook=_make)


def _make(hint: Any, value: Any) -> Any:
    """Types that msgspec does not know: pydantic models validate themselves; anything else stays as it is stored.

    From JSON, because only then does a strict model accept a string as a date.
    """
    maker = getattr(hint, "model_validate_json", None)
    if maker is not None:
        return maker(msgspec.json.encode(value))
    return value


def is_coroutine(code: Any) -> bool:
    """Whether calling it returns a coroutine."""
    return inspect.iscoroutinefunction(code) or (
        not isinstance(code, type | types.FunctionType) and inspect.iscoroutinefunction(getattr(code, "__call__", None))  # noqa: B004
    )
