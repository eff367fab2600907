"""What the tests of the C headers take: a folder for what they compile, and a module's functions in every build.

A test module names its HEADER and its SIGNATURES (see c_headers.py). The private cache of this process, which
other tests may have filled, is out of their sight.
"""

from __future__ import annotations

import pytest

from gtensor.codegen import folder
from tests.codegen.c_headers import SCALAR


@pytest.fixture(autouse=True)
def no_private_cache(monkeypatch):
    """As if nothing in this process had been compiled without a cache."""
    monkeypatch.setattr(folder, "_STAND_INS", {})


@pytest.fixture(scope="session")
def c_folder(tmp_path_factory):
    """Where C is compiled."""
    return tmp_path_factory.mktemp("c")


@pytest.fixture(scope="module", params=SCALAR, ids=str)
def c_functions(request, c_folder):
    """The functions that the test module names, for one value, by name, as functions of arrays: in each build."""
    return request.param.functions(request.module.HEADER, request.module.SIGNATURES, c_folder)


@pytest.fixture(params=SCALAR, ids=str)
def c_program(request, c_folder):
    """`c_program(text, *flags)`: compile and run a program, in each build, and give what it printed."""
    return lambda text, *flags: request.param.run(text, c_folder, *flags)
