"""The crowds that a benchmark puts beside the work: what has finished, what is blocked, a tree, what is open."""

from __future__ import annotations

from bench.rows import BEFORE_THE_CROWD, Loader, Parent


def finished(loader: Loader, count: int, busy: Parent) -> None:
    """Steps that have ended: half of them alone, the rest in trees, in blocks, and as earlier children of `busy`."""
    made = 0
    while made < count:
        for number in range(20):  # 1 in 10 of those that stood alone did not conclude
            loader.step("Failed" if number == 0 else "Cancelled" if number == 1 else "Completed")
        parent = loader.parent("Completed")
        for index in range(1, 10):
            loader.step("Completed", parent=parent, index=index)
        block, workflow = loader.uuids.next(), loader.uuids.next()
        for index in range(1, 6):
            loader.step("Completed", block=block, workflow=workflow, index=index, has_dependents=True)
        for _ in range(5):
            loader.step("Completed", parent=busy)
        made += 40


def blocked(loader: Loader, count: int, busy: Parent) -> None:
    """Steps that wait, a hundred each: by index, by DAG edges, under a parent, far behind in the block of `busy`."""
    made = 0
    while made < count:
        block, workflow = loader.uuids.next(), loader.uuids.next()
        loader.step(block=block, workflow=workflow, has_dependents=True, status="delayed")
        for index in range(2, 102):
            loader.step(block=block, workflow=workflow, index=index, has_dependents=True)
        first, workflow = loader.step(status="delayed", has_dependents=True)
        for _ in range(100):
            loader.step(workflow=workflow, depends_on=[first])
        parent = loader.parent(status="delayed")
        for index in range(1, 101):
            loader.step(parent=parent, index=index)
        for place in range(1, 101):
            loader.step(parent=busy, index=BEFORE_THE_CROWD + place)
        made += 400


def tree(loader: Loader, descendants: int, fan_out: int = 10) -> int:
    """A tree under one root: whoever has children waits for them, the leaves are open. Returns the root's id."""
    root = loader.parent("Running")
    parents, made = [root], 0
    for parent in parents:  # it grows while we walk along it
        for _ in range(fan_out):
            if made == descendants:
                return root.id
            made += 1
            if len(parents) * fan_out < descendants:
                parents.append(loader.parent("Running", parent=parent))
            else:
                loader.step(parent=parent, status="open")
    return root.id


def open_steps(loader: Loader, count: int) -> None:
    """Steps that may run now."""
    for _ in range(count):
        loader.step(status="open")
