"""BLAS providers: found without loading, loaded with one thread, tested, and Accelerate's shim over a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from gtensor.codegen import blas, machine, trampoline
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.blas import BlasError, Provider, choose, table
from gtensor.codegen.library import Library, LibraryError
from gtensor.codegen.options import Options

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (Path(__file__).parent / "by_hand.c").read_text(encoding="utf-8")
OPTIONS = Options(cache=Path(os.environ["GT_CACHE"]))
WHEEL = blas.wheel(Workshop(OPTIONS))
DEFAULT = choose(OPTIONS, Workshop(OPTIONS))
on_the_wheel = pytest.mark.skipif(machine.MACOS, reason="there is no scipy-openblas32 for macOS")

FORWARD = """\
#include <stdint.h>
#define ARGS const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k
#define GEMM(T, name) \\
    void scipy_##name(ARGS, const T *, const T *, const int32_t *, const T *, const int32_t *, const T *, T *, \\
                      const int32_t *); \\
    __attribute__((visibility("default"))) void name(ARGS, const T *alpha, const T *a, const int32_t *lda, \\
                                                     const T *b, const int32_t *ldb, const T *beta, T *c, \\
                                                     const int32_t *ldc); \\
    void name(ARGS, const T *alpha, const T *a, const int32_t *lda, const T *b, const int32_t *ldb, const T *beta, \\
              T *c, const int32_t *ldc) { \\
        scipy_##name(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); \\
    }
GEMM(float, sgemm_)
GEMM(double, dgemm_)
"""
"""A library with the symbols of a system's BLAS, over the wheel."""

ACCELERATE_H = """\
#include <cblas.h>
#define cblas_sgemm scipy_cblas_sgemm
#define cblas_dgemm scipy_cblas_dgemm
"""
"""What <Accelerate/Accelerate.h> gives, over the wheel's headers."""


def over_the_wheel():
    """The link flags for the wheel's library."""
    library = Path(WHEEL.path)
    return (str(library), f"-Wl,-rpath,{library.parent}")


def workshop(tmp_path, **options):
    return Workshop(Options(cache=tmp_path / "cache", **options))


def multiply(address, m, n, k, dtype):
    """C = A B through a table, row-major, and what NumPy says."""
    ffi = blas.FFI
    pointer = ffi.cast("gt_blas *", address)
    function, ctype = {np.float32: (pointer.sgemm, "float"), np.float64: (pointer.dgemm, "double")}[dtype]
    random = np.random.default_rng(0)
    a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
    c = np.zeros((m, n), dtype)
    one, zero = ffi.new(f"{ctype} *", 1), ffi.new(f"{ctype} *", 0)
    pm, pn, pk = (ffi.new("int32_t *", size) for size in (m, n, k))
    pa, pb, pc = (ffi.from_buffer(f"{ctype}[]", array) for array in (a, b, c))
    function(b"N", b"N", pn, pm, pk, one, pb, pn, pa, pk, zero, pc, pn)
    return c, a @ b


@on_the_wheel
def test_the_default_is_the_wheel_found_without_loading_it():
    code = (
        "import sys\nfrom gtensor.codegen import blas\nfrom gtensor.codegen.artefact import Workshop\n"
        "from gtensor.codegen.options import Options\n"
        "options = Options()\nprovider = blas.choose(options, Workshop(options))\nprint(provider.text)\n"
        "assert 'scipy_openblas32' not in sys.modules\n"
        "assert provider.path not in open('/proc/self/maps').read()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    name, kind, path, version = done.stdout.split()
    assert (name, kind, path) == ("blas", "scipy-openblas32", WHEEL.path)
    assert version[0].isdigit()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 7), (200, 64, 33)])
def test_products(tmp_path, dtype, m, n, k):
    made = table(DEFAULT, workshop(tmp_path))
    c, right = multiply(made.address, m, n, k, dtype)
    np.testing.assert_allclose(c, right, rtol=0, atol=k * 4 * np.finfo(dtype).eps)


@on_the_wheel
def test_only_our_blas_is_told_to_use_one_thread(tmp_path):
    before = {info["filepath"]: info["num_threads"] for info in threadpool_info()}
    table(WHEEL, workshop(tmp_path))
    after = {info["filepath"]: info["num_threads"] for info in threadpool_info()}
    ours = os.path.realpath(WHEEL.path)
    assert {path: count for path, count in after.items() if os.path.realpath(path) == ours} == {ours: 1}
    others = {path: count for path, count in before.items() if os.path.realpath(path) != ours}
    assert others and others.items() <= after.items()


def test_the_table_is_made_once(tmp_path):
    assert table(DEFAULT, workshop(tmp_path)) is table(DEFAULT, workshop(tmp_path))


def test_a_model_that_calls_blas(tmp_path):
    shop = Workshop(OPTIONS)
    recipe = Recipe("by_hand", f"blas {SOURCE}", add=("-DBY_HAND_BLAS",))
    path = (shop.find(recipe) or shop.make(recipe, {"by_hand.c": SOURCE})).library_path
    x, w = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 10, 100], np.float32)
    for bridge in (trampoline.abi_bridge(), trampoline.bridge(shop)):
        library = Library(path, bridge, lambda: table(choose(OPTIONS, shop), shop).address)
        assert library.model.needs_blas
        y, _ = library.call([x, w, np.zeros(2, np.int64), np.empty(0, bool)], state=library.new_state())
        np.testing.assert_array_equal(y.ravel()[:2], x @ w)
        without = Library(path, bridge, lambda: 0)
        with pytest.raises(LibraryError, match="code 3"):
            without.call([x, w, np.zeros(2, np.int64), np.empty(0, bool)], state=library.new_state())


def test_after_fork(tmp_path):
    made = table(DEFAULT, workshop(tmp_path))
    right, _ = multiply(made.address, 200, 200, 200, np.float32)
    pid = os.fork()
    if pid == 0:
        same = np.array_equal(multiply(made.address, 200, 200, 200, np.float32)[0], right)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(multiply(made.address, 200, 200, 200, np.float32)[0], right)


def test_none_and_portable_have_no_blas(tmp_path):
    for options in ({"blas": "none"}, {"variant": "portable"}, {"variant": "portable", "blas": "scipy-openblas32"}):
        shop = workshop(tmp_path, **options)
        provider = choose(shop.options, shop)
        assert not provider and provider.text == "blas none"
        with pytest.raises(BlasError, match="now there is none"):
            table(provider, shop)


def test_a_named_provider_that_is_missing_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(blas.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(blas.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(machine, "MACOS", False)
    for name in ("scipy-openblas32", "system", "accelerate"):
        shop = workshop(tmp_path, blas=name)
        with pytest.raises(BlasError, match=f"GT_BLAS={name}: there is none here\n  hint: "):
            choose(shop.options, shop)
    shop = workshop(tmp_path)
    assert choose(shop.options, shop) == blas.NONE


def test_the_default_on_macos_is_accelerate(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "MACOS", True)
    shop = workshop(tmp_path)
    assert choose(shop.options, shop).name == "accelerate"


def test_a_library_that_is_no_blas(tmp_path):
    (tmp_path / "libopenblas.so").write_text("no library")
    with pytest.raises(BlasError, match="cannot be used as BLAS"):
        table(Provider("system", str(tmp_path / "libopenblas.so")), workshop(tmp_path))
    shop = workshop(tmp_path)
    path = shop.make(Recipe("empty", "", plain=True), {"empty.c": "int x;\n"}).library_path
    with pytest.raises(BlasError, match="sgemm_"):
        table(Provider("system", str(path)), shop)


@on_the_wheel
@pytest.mark.parametrize("name", ["sgemm", "dgemm"])
def test_a_blas_that_multiplies_wrong_is_refused(tmp_path, name):
    shop = workshop(tmp_path)
    wrong = FORWARD.replace(f"GEMM({ {'sgemm': 'float', 'dgemm': 'double'}[name] }, {name}_)", "")
    wrong += f'__attribute__((visibility("default"))) void {name}_(void);\nvoid {name}_(void) {{}}\n'
    entry = shop.make(Recipe(name, wrong, ("-fPIC",), over_the_wheel(), plain=True), {"wrong.c": wrong})
    with pytest.raises(BlasError, match=rf"multiplies wrong \({name}, NN\)\n  hint: GT_BLAS names another"):
        table(Provider("system", str(entry.library_path)), shop)


SYSTEM = """
import sys
from pathlib import Path
from gtensor.codegen import blas, machine
from gtensor.codegen.artefact import Workshop
from gtensor.codegen.options import Options
options = Options(cache=Path(sys.argv[1]), blas="system")
shop = Workshop(options)
if sys.argv[2] == "again":
    blas.ctypes.util.find_library = lambda name: sys.exit("searched again")
provider = blas.choose(options, shop)
blas.table(provider, shop)
print(provider.text)
"""


@on_the_wheel
def test_a_blas_of_the_system_is_searched_once(tmp_path):
    shop = workshop(tmp_path)
    recipe = Recipe("system", FORWARD, ("-fPIC",), ("-Wl,-soname,libopenblas.so", *over_the_wheel()), plain=True)
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libopenblas.so").write_bytes(shop.make(recipe, {"f.c": FORWARD}).library_path.read_bytes())
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    texts = []
    for how in ("first", "again"):
        command = [sys.executable, "-c", SYSTEM, str(tmp_path / "cache"), how]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert str(folder / "libopenblas.so") in texts[0]
    (folder / "libopenblas.so").touch()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode != 0 and "searched again" in done.stderr


@on_the_wheel
def test_accelerate_through_its_shim(tmp_path):
    shop = workshop(tmp_path)
    (tmp_path / "sdk" / "Accelerate").mkdir(parents=True)
    (tmp_path / "sdk" / "Accelerate" / "Accelerate.h").write_text(ACCELERATE_H)
    search = (tmp_path / "sdk", Path(WHEEL.path).parents[1] / "include")
    entry = blas.build_shim(shop, link=over_the_wheel(), search=search)
    made = blas.from_shim(entry.library_path)
    blas.self_test(made)
    for dtype in (np.float32, np.float64):
        c, right = multiply(made.address, 20, 30, 40, dtype)
        np.testing.assert_allclose(c, right, rtol=0, atol=200 * np.finfo(dtype).eps)
    assert blas.build_shim(shop, link=over_the_wheel(), search=()) == entry, "from the cache"


@on_the_wheel
def test_accelerate_that_is_not_there(tmp_path):
    with pytest.raises(BlasError, match="Accelerate cannot be used"):
        table(Provider("accelerate", "Accelerate.framework", "0"), workshop(tmp_path))
