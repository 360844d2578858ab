"""The scenario: the jobs of the shop and the steps that are created.

It is written as a user would write it, with the public API only.
"""

from __future__ import annotations

from stepwell import NewStep, Permanent, Retry, State, Step, StepRef, Stepwell, current_step

IMAGES = 8


class Story:
    """The jobs, registered with an app; `pace` stretches (or, below 1, shortens) everything that takes time."""

    def __init__(self, app: Stepwell, pace: float = 1.0) -> None:
        self.app = app
        self.pace = pace
        self.roots: dict[str, StepRef] = {}
        self._cancelled = False
        self._register()

    def _work(self, seconds: float) -> None:
        self.app.clock.sleep(seconds * self.pace)

    def _register(self) -> None:
        app, work, pace = self.app, self._work, self.pace

        @app.job()
        def fetch(what: str) -> dict[str, int]:
            work(0.6)
            if what == "prices" and current_step().attempts < 3:
                raise Retry("the exchange does not answer", in_=0.7 * pace)
            return {"rows": 1_000 + 7 * len(what)}

        @app.job()
        def task(seconds: float = 0.4) -> None:
            work(seconds)

        @app.job()
        def write_chapters(names: list[str]) -> None:
            me = current_step()
            app.enqueue_many(task.options(parent=me, label=f"chapter on {name}").draft(0.8) for name in names)

        @app.job()
        def nightly_report() -> None:
            me = current_step()
            app.enqueue_many(
                [
                    fetch.options(parent=me, index=1, label="fetch orders").draft("orders"),
                    fetch.options(parent=me, index=1, label="fetch customers").draft("customers"),
                    fetch.options(parent=me, index=1, label="fetch prices").draft("prices"),
                    task.options(parent=me, index=2, label="clean the data").draft(),
                    write_chapters.options(parent=me, index=3, label="write the chapters").draft(["sales", "stock"]),
                    task.options(parent=me, index=4, label="send the report").draft(),
                ]
            )

        @app.job()
        def read_prices() -> None:
            work(0.4)
            raise Permanent("line 1,284: 'n/a' is not a price")

        @app.job()
        def import_prices() -> None:
            me = current_step()
            app.enqueue_many(
                [
                    task.options(parent=me, index=1, label="download the file").draft(),
                    read_prices.options(parent=me, index=2, label="read the file").draft(),
                    task.options(parent=me, index=3, label="load the prices").draft(),
                    task.options(parent=me, type="resolve-exception", label="tell the buyer").draft(),
                ]
            )

        @app.job()
        def rebuild_search() -> None:
            me = current_step()
            an_hour = 3_600
            app.enqueue_many(
                [
                    task.options(parent=me, index=1, label="copy the documents").draft(),
                    task.options(parent=me, index=2, label="switch at a quiet hour", delay=an_hour).draft(),
                    task.options(parent=me, index=3, label="delete the old index").draft(),
                ]
            )

        @app.job()
        def resize_images(count: int) -> None:
            me = current_step()
            app.enqueue_many(
                task.options(parent=me, label=f"image {number}").draft(0.5) for number in range(1, count + 1)
            )

        self.nightly_report, self.import_prices, self.rebuild_search = nightly_report, import_prices, rebuild_search
        self.resize_images, self.task = resize_images, task

    def begin(self) -> None:
        """Create the first steps in one call: all or none."""
        drafts = {
            "nightly report": self.nightly_report.options(label="nightly report").draft(),
            "price import": self.import_prices.options(label="price import").draft(),
            "new search index": self.rebuild_search.options(label="new search index").draft(),
            "product images": self.resize_images.options(label="product images").draft(IMAGES),
            "reminder": self.task.options(label="reminder", delay=2 * self.pace).draft(0.3),
            "release": self.task.options(label="release").draft(0.1),
        }
        # A graph: both tests need the build, and it is published only when both have passed.
        ship = self.task.options(parent=drafts["release"])
        build = ship.options(label="build").draft(0.4)
        on_linux = ship.options(label="test on Linux", depends_on=[build]).draft(0.6)
        on_mac = ship.options(label="test on macOS", depends_on=[build]).draft(0.9)
        publish = ship.options(label="publish", depends_on=[on_linux, on_mac]).draft(0.3)
        created = self.app.enqueue_many([*drafts.values(), build, on_linux, on_mac, publish])
        self.roots = dict(zip(drafts, created, strict=False))

    def act(self) -> None:
        """What users do meanwhile: cancel a workflow that waits, and enqueue an urgent step."""
        images = self.below("product images")
        if "password mail" not in self.roots and any(step.state is not State.PENDING for step in images):
            # Enqueued last, run first. In the group of the images, so that the same ticks serve both.
            group = self.app.step(self.roots["product images"]).group
            urgent = NewStep(
                action="task", arguments={"seconds": 0.3}, label="password mail", priority="high", group=group
            )
            (self.roots["password mail"],) = self.app.enqueue_many([urgent])
        if not self._cancelled and any(
            step.name == "copy the documents" and step.state.is_terminal for step in self.below("new search index")
        ):
            self.app.cancel(self.roots["new search index"], who="ann", why="the shop stays open tonight")
            self._cancelled = True

    def below(self, root: str) -> list[Step]:
        """The steps under one of the roots, at any depth, oldest first."""
        steps = self.of(root)
        return [step for step in steps if step.id != self.roots[root].id]

    def of(self, root: str) -> list[Step]:
        return self.app.steps(workflow=self.roots[root].uuid, limit=100)[::-1]

    def is_over(self) -> bool:
        """Whether every step has ended."""
        return "password mail" in self.roots and all(
            step.state.is_terminal and step.lease_worker is None for root in self.roots for step in self.of(root)
        )
