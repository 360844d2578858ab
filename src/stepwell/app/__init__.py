"""The app: one object with a database, its jobs and everything one can do with steps."""

from stepwell.app.stepwell import Stepwell

__all__ = ["Stepwell"]
