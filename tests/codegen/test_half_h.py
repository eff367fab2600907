"""templates/gt_half.h: every 16-bit pattern, and conversions from other dtypes against NumPy and ml_dtypes.

Conversions from float64 are held against fractions, since ml_dtypes rounds twice; lanes against single values.
"""

from __future__ import annotations

import ctypes
from fractions import Fraction

import numpy as np
import pytest

from tests.codegen.c_headers import NUMPY, SCALAR, UNDEFINED, VECTOR, Build, awkward

ml_dtypes = pytest.importorskip("ml_dtypes")

HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
PATTERNS = np.arange(2**16, dtype=np.uint16)
INTEGERS = [tag for tag in NUMPY if tag[0] in "iu"]


def loop(name: str, source: str, target: str, body: str) -> str:
    """C text: a loop over n elements from `a` to `out`."""
    return f"void over_{name}(int64_t n, const {source} *a, {target} *out)\n{{\n{body}\n}}\n"


def one(name: str, source: str, target: str, expression: str) -> str:
    return loop(name, source, target, f"    for (int64_t i = 0; i < n; i++)\n        out[i] = ({target}){expression};")


def wide(name: str, source: str, target: str, load: str, store: str, expression: str) -> str:
    """All vectors, the last in part."""
    return loop(name, source, target, f"""    for (int64_t i = 0; i < n; i += GT_LANES) {{
        const gt_v_{load.rsplit("_", 1)[1]} x = {load}(a + i, n - i);
        {store}(out + i, {expression}, n - i);
    }}""")  # fmt: skip


C = {"f32": "float", "f64": "double", **{t: f"{np.dtype(NUMPY[t]).name}_t" for t in INTEGERS}, "b1": "uint8_t"}
SINGLE = {
    **{("from", t, "f32"): ("uint16_t", "float", f"gt_from_{t}(a[i])") for t in HALVES},
    **{("to", t, t): ("uint16_t", "uint16_t", f"gt_to_{t}(gt_from_{t}(a[i]))") for t in HALVES},
    **{("cast", s, t): (C[s], "uint16_t", f"gt_to_{t}(gt_cast_{s}_{t}(a[i]))") for s in C for t in HALVES},
    **{("cast", t, r): ("uint16_t", C[r], f"gt_cast_{t}_{r}(gt_from_{t}(a[i]))") for t in HALVES for r in C},
    **{
        (f"next {to}", t, t): ("uint16_t", "uint16_t", f"gt_to_{t}(gt_nextafter_{t}(gt_from_{t}(a[i]), {to}))")
        for t in HALVES
        for to in ("INFINITY", "-INFINITY", "0.0f")
    },
}
LANES = {
    **{("from", t, "f32"): ("uint16_t", "float", f"gt_load_upto_{t}", "gt_store_upto_f32", "x") for t in HALVES},
    **{("to", t, t): ("uint16_t", "uint16_t", f"gt_load_upto_{t}", f"gt_store_upto_{t}", "x") for t in HALVES},
    **{
        ("cast", s, t): (C[s], "uint16_t", f"gt_load_upto_{s}", f"gt_store_upto_{t}", f"gt_cast_v_{s}_v_{t}(x)")
        for s in ("f32", "i32", "b1")
        for t in HALVES
    },
    **{
        ("cast", t, r): ("uint16_t", C[r], f"gt_load_upto_{t}", f"gt_store_upto_{r}", f"gt_cast_v_{t}_v_{r}(x)")
        for t in HALVES
        for r in ("f32", "i32", "b1")
    },
}
DTYPE = {**{tag: np.dtype(d) for tag, d in NUMPY.items()}, **HALVES}


def run(build: Build, folder, texts: dict, values: dict) -> dict:
    """The results of those loops, on values by the tag that a key names second."""
    names = {key: f"f{number}" for number, key in enumerate(texts)}
    source = "\n".join(['#include "gt_half.h"', *(text(names[key]) for key, text in texts.items())])
    library = ctypes.CDLL(str(build.compile(source, folder, "-shared", "-fPIC")))
    results = {}
    for key, name in names.items():
        given = np.ascontiguousarray(values[key[1]])
        out = np.zeros(len(given), DTYPE[key[2]])
        function = getattr(library, f"over_{name}")
        function(ctypes.c_int64(len(given)), ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        results[key] = out
    return results


def floats(tag: str) -> np.ndarray:
    """Numbers between neighbours of 16 bits, at and beside the middle, and at random."""
    dtype = NUMPY[tag]
    with np.errstate(all="ignore"):
        grids = [p.view(d).astype(dtype) for d in HALVES.values() for p in (PATTERNS, PATTERNS[::-1])]
        grids = [g[np.isfinite(g)] for g in grids]
        middles = [(g[1:] / 2 + g[:-1] / 2) for g in grids]
        beside = [np.nextafter(m, dtype(to)) for m in middles for to in (-np.inf, np.inf)]
        drawn = np.random.default_rng(0).integers(0, 2**32, 2 * 10**5, np.uint32)
        random = drawn.view(np.float32).astype(dtype) if tag == "f32" else drawn.view(np.float64)
    return np.concatenate([*grids, *middles, *beside, random, awkward(tag)]).astype(dtype)


VALUES = {
    **dict.fromkeys(HALVES, PATTERNS),
    **{tag: floats(tag) for tag in ("f32", "f64")},
    **{tag: np.concatenate([awkward(tag), np.arange(256).astype(NUMPY[tag])]) for tag in INTEGERS},
    "b1": np.array([False, True] * 20),
}


def rounded(values: np.ndarray, tag: str) -> np.ndarray:
    """What NumPy and ml_dtypes give; from float64 to bfloat16 by way of a float32 with a sticky last bit."""
    dtype = HALVES[tag]
    with np.errstate(all="ignore"):
        if values.dtype == np.float64 and tag == "bf16":
            near = values.astype(np.float32)
            bits = near.view(np.uint32) - (np.abs(near) > np.abs(values))
            values = np.where((near == values) | np.isnan(values), near, (bits | 1).view(np.float32))
        return values.astype(np.float32).astype(dtype) if values.dtype.kind in "iu" else values.astype(dtype)


def saturated(values: np.ndarray, tag: str) -> np.ndarray:
    """float32 as integers: cut off, saturated, NaN as 0."""
    info = np.iinfo(NUMPY[tag])
    whole = [0 if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in values]
    return np.array(whole, NUMPY[tag])


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal bits, but for which NaN it is."""
    assert found.dtype == wanted.dtype
    bits = f"u{found.dtype.itemsize}"
    with np.errstate(invalid="ignore"):  # ml_dtypes looks at NaN with a warning
        both = [np.isnan(x) if x.dtype.kind in "fV" else np.zeros(len(x), bool) for x in (found, wanted)]
    return bool(((found.view(bits) == wanted.view(bits)) | (both[0] & both[1])).all())


def expected(key: tuple[str, str, str]) -> np.ndarray:
    """What NumPy has for a conversion."""
    with np.errstate(all="ignore"):
        return _expected(key)


def _expected(key: tuple[str, str, str]) -> np.ndarray:
    kind, source, target = key
    values = VALUES[source].view(HALVES[source]) if source in HALVES else VALUES[source]
    if kind.startswith("next"):
        toward = HALVES[source].type({"INFINITY": np.inf, "-INFINITY": -np.inf, "0.0f": 0.0}[kind.split()[1]])
        return np.where(values == toward, toward, np.nextafter(values, toward))
    if target in HALVES:
        return values if source == target else rounded(values, target)
    wide = values.astype(np.float32)
    if target in INTEGERS:
        return saturated(wide, target)
    return wide != 0 if target == "b1" else wide.astype(DTYPE[target])


@pytest.mark.parametrize("build", SCALAR, ids=str)
def test_every_conversion(build, tmp_path):
    texts = {key: lambda name, k=key: one(name, *SINGLE[k]) for key in SINGLE}
    for key, found in run(build, tmp_path, texts, VALUES).items():
        assert same(found, expected(key)), key


@pytest.mark.parametrize("build", VECTOR, ids=str)
def test_every_conversion_of_vectors(build, tmp_path):
    texts = {key: lambda name, k=key: wide(name, *LANES[k]) for key in LANES}
    for key, found in run(build, tmp_path, texts, VALUES).items():
        assert same(found, expected(key)), key


@pytest.mark.parametrize("tag", HALVES)
def test_the_reference_rounds_to_the_nearest_and_to_even(tag):
    """What the C is held against, in exact arithmetic: no neighbour is nearer, and of two as near the even one."""
    values = np.random.default_rng(1).permutation(floats("f64"))[:3000]
    grid = PATTERNS[: 2**15].view(HALVES[tag])
    with np.errstate(invalid="ignore"):
        finite = grid[np.isfinite(grid)].astype(np.float64)
    ends = [*map(Fraction, finite.tolist()), 2 * Fraction(finite[-1]) - Fraction(finite[-2])]
    for value, found in zip(values.tolist(), rounded(values, tag).astype(np.float64).tolist(), strict=True):
        if not np.isfinite(value):
            assert np.isnan(found) if np.isnan(value) else found == value
            continue
        size = Fraction(abs(value))
        low = int(np.searchsorted(finite, abs(value), side="right")) - 1
        if size >= ends[-1]:
            assert abs(found) == np.inf
            continue
        below, above = size - ends[low], ends[low + 1] - size
        place = low if below < above or (below == above and low % 2 == 0) else low + 1
        assert abs(found) == (finite[place] if place < len(finite) else np.inf)
        assert np.signbit(found) == np.signbit(value)


def test_nothing_is_undefined(c_folder):
    """All functions over difficult values, under the undefined-behaviour sanitizer."""
    lines = ['#include "gt_half.h"', "int main(void)", "{", "    volatile double sink;"]
    for number, (source, _, expression) in enumerate(SINGLE.values()):
        lines += [
            f"    for (int64_t n = -70000; n < 70000; n += 7) {{ /* {number} */",
            f"        const {source} a[1] = {{({source})(n * 37)}};",
            f"        const int i = 0; sink = (double){expression}; (void)sink; (void)i; }}",
        ]  # fmt: skip
    text = "\n".join([*lines, "    return 0;", "}"])
    build = SCALAR[0]
    assert build.run(text, c_folder, *UNDEFINED) == ""
