"""The public names of the package: loaded when they are used, and known to everything that asks for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stepwell
from stepwell import public


def test_the_package_loads_its_public_names_when_the_first_one_is_used() -> None:
    code = (
        "import sys, stepwell\n"
        "assert 'stepwell.app' not in sys.modules, 'loaded with the package'\n"
        "from stepwell import Stepwell, State\n"
        "assert Stepwell is sys.modules['stepwell.app'].Stepwell\n"
        "assert 'State' in vars(stepwell), 'looked up again each time'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_star_import_gives_every_public_name() -> None:
    code = "from stepwell import *; print(*sorted(name for name in globals() if not name.startswith('__')))"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ended.stdout.split() == sorted(public.__all__)


def test_dir_lists_the_public_names() -> None:
    assert set(dir(stepwell)) >= {*public.__all__, "__version__"}


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'stepwell' has no attribute 'Stepwel'"):
        getattr(stepwell, "Stepwel")  # noqa: B009


@pytest.mark.parametrize("name", ["Final", "import_module", "_LATER"])
def test_what_the_module_of_public_names_uses_itself_is_none_of_them(name: str) -> None:
    assert hasattr(public, name)
    assert not hasattr(stepwell, name)
