"""The configuration of main processes: read from TOML, YAML or Python, with every problem at once."""

from stepwell.processes.config.config import ProcessConfig
from stepwell.processes.config.items import MainProcessConfig, TaskConfig, TaskEntry

__all__ = ["MainProcessConfig", "ProcessConfig", "TaskConfig", "TaskEntry"]
