"""The steps that a run creates below its own: buffered, and written together with the end of compute."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.define.drafts import NewStep, check, not_a_draft
from stepwell.define.transport import to_wire
from stepwell.model.errors import BadChildren, InvalidStep
from stepwell.model.ids import Uuid7Generator, canonical_uuid
from stepwell.model.step import Step, StepRef


class NewChildren:
    """The new steps of one run. Until they are written they have a uuid, but no id (0)."""

    def __init__(self, parent: StepRef, child_block: str | None, uuids: Uuid7Generator) -> None:
        self._parent = parent
        self._new_uuids = uuids
        self._unwritten: list[NewStep] = []
        # Drafts that others may refer to, by identity, with their uuids. The drafts are stored too: the identity of an
        # object can be reused after it is freed.
        self._drafts: dict[int, tuple[NewStep, str]] = {}
        self._uuids: set[object] = set()
        self._blocks: set[object] = set() if child_block is None else {child_block}
        self._last_index = 0
        self._lock = threading.RLock()  # the job may have threads of its own

    def add_block(self, places: Sequence[NewStep | Iterable[NewStep]]) -> list[StepRef]:
        """Add children: one place after another; the steps of a list run in parallel."""
        with self._lock:
            return self.add(*self._in_order(places))

    def _in_order(self, places: Sequence[NewStep | Iterable[NewStep]]) -> tuple[list[NewStep], list[NewStep]]:
        given: list[NewStep] = []
        children: list[NewStep] = []
        for place in places:
            together = _drafts_at(place)
            if any(draft.index is None and draft.type == "default" for draft in together):
                self._last_index += 1
            next_index = self._last_index
            for draft in together:
                if draft.parent is not None and not self._is_parent(draft.parent):
                    raise BadChildren(f"{_name(draft)} has a different parent: create it with app.enqueue")
                index = next_index if draft.index is None and draft.type == "default" else draft.index
                children.append(replace(draft, parent=self._parent.uuid, index=index))
                if draft.type == "default":
                    self._last_index = max(self._last_index, index or 1)
            given += together
        return children, given

    def add(self, drafts: Sequence[NewStep], given: Sequence[NewStep] | None = None) -> list[StepRef]:
        """Buffer them. `given` are the job's own drafts, if `drafts` are copies with an index and a parent."""
        given = drafts if given is None else given
        if len({draft.identity for draft in given}) < len(given):
            raise BadChildren("the same NewStep was passed twice: make a draft for each step")
        uuids = [self._new_uuids.next() if draft.uuid is None else str(_canonical(draft.uuid)) for draft in drafts]
        new = {draft.identity: (draft, uuid) for draft, uuid in zip(given, uuids, strict=True)}
        with self._lock:
            self._unwritten += [
                self._by_uuids(replace(draft, uuid=uuid), new) for draft, uuid in zip(drafts, uuids, strict=True)
            ]
            self._drafts |= new
            self._uuids.update(uuids)
            self._blocks.update(_canonical(draft.child_block) for draft in drafts if draft.child_block is not None)
        return [StepRef(0, uuid) for uuid in uuids]

    def includes(self, draft: NewStep, *, by_number: bool) -> bool:
        """Whether it is a child of the step, or connected to a step created in this run.

        Without `by_number`, ids are ignored: in another database the same id means a different step.
        """
        if draft.block is not None and _canonical(draft.block) in self._blocks:
            return True
        if draft.parent is not None and self._is_parent(draft.parent, by_number=by_number):
            return True
        named = [step for step in (draft.parent, *draft.depends_on) if step is not None]
        return any(id(step) in self._drafts or _key(step) in self._uuids for step in named)

    def has_unwritten(self, uuid: str) -> bool:
        """Whether a new step with this uuid is not written yet."""
        return any(draft.uuid == uuid for draft in self._unwritten)

    def take(self) -> list[dict[str, Any]]:
        """All unwritten steps as plain data; the next call returns only what was added since."""
        with self._lock:
            unwritten, self._unwritten = self._unwritten, []
        return [to_wire(draft) for draft in unwritten]

    def _is_parent(self, step: object, *, by_number: bool = True) -> bool:
        if isinstance(step, int):
            return by_number and step == self._parent.id
        return (step.uuid if isinstance(step, Step | StepRef) else _key(step)) == self._parent.uuid

    def _by_uuids(self, draft: NewStep, new: dict[int, tuple[NewStep, str]]) -> NewStep:
        """The draft with its references to other new steps replaced by uuids, which can be sent to another process."""

        def target(step: Any) -> Any:
            if not isinstance(step, NewStep):
                return _key(step)
            found = new.get(id(step)) or self._drafts.get(id(step))
            if found is None:
                raise BadChildren(f"{_name(draft)} refers to a new step that was not created in this run")
            return found[1]

        parent = None if draft.parent is None else target(draft.parent)
        return replace(draft, parent=parent, depends_on=tuple(map(target, draft.depends_on)))


def _drafts_at(place: Any) -> list[NewStep]:
    """The drafts at one place, which run in parallel; raises if one of them is invalid."""
    many = isinstance(place, Iterable) and not isinstance(place, str | bytes | Mapping)
    together = list(place) if many else [place]
    for draft in together:
        if (problem := not_a_draft("children", draft)) is not None:
            raise BadChildren(problem)
        try:
            check(draft)
        except InvalidStep as error:
            raise BadChildren(str(error)) from error
    return together


def _name(draft: NewStep) -> str:
    return repr(draft.label or draft.action)


def _key(step: object) -> object:
    """What identifies a step: its id, or its uuid while it has no id."""
    if isinstance(step, Step | StepRef):
        return step.id or step.uuid
    return _canonical(step) if isinstance(step, str) else step


def _canonical(text: object) -> object:
    """A uuid as it is stored; anything else unchanged: it is rejected when it is written."""
    return canonical_uuid(text) or text
