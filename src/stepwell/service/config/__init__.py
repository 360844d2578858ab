"""The configuration: `stepwell.toml` and the environment, read once, with every problem reported together.

settings   the sections, with type, default and meaning of every setting
kinds      what a kind of value is; `numbers`, `words` and `names` are the kinds
reading    the file and the environment become a `Config`, or a `ConfigError`
lines      in which line of a TOML text a key is written
reference  the table of settings in docs/configuration.md
"""

from stepwell.service.config.config import Config, Origin
from stepwell.service.config.reading import load_config, load_setting
from stepwell.service.config.setting import Setting
from stepwell.service.config.settings import all_settings

__all__ = ["Config", "Origin", "Setting", "all_settings", "load_config", "load_setting"]
