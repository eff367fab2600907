"""What the tests of refused programs share: how an error is looked at.

The line of the user's program that is at fault ends in `# fault`; an error shows that line, so the mark must be in
its text.
"""

from __future__ import annotations

import contextlib

import pytest

from gtensor.errors import GTensorError


@pytest.fixture
def refused(request):
    """`with refused(Error, "part", …):` the block raises it, with these parts in order, at the line marked `# fault`.

    `line=False` for errors that have no such line.
    """

    @contextlib.contextmanager
    def look(error, *parts, line=True, builtin=None):
        with pytest.raises(error) as caught:
            yield caught
        found = caught.value
        assert isinstance(found, GTensorError)
        assert type(found) is error
        if builtin is not None:
            assert isinstance(found, builtin)
        text = str(found)
        position = 0
        for part in parts:
            assert part in text[position:], f"{part!r} is not in its place in:\n{text}"
            position = text.index(part, position) + len(part)
        lines = text.splitlines()
        assert len(lines) < 30
        assert all(len(each) < 1000 for each in lines)
        marked = [each for each in lines if each.startswith(f"  at {request.path.name}:")]
        assert not line or any("# fault" in each for each in marked), f"the marked line is not named in:\n{text}"

    return look
