"""The harness of benchmarks/: what it refuses, what its tables say, and that README.md takes them.

The records are made up, so that every figure of a table is known. Nothing is timed here; the programs whose timing
is the point (products, functions, calls) are tried for their results alone.
"""

from __future__ import annotations

import sys

import pytest

from benchmarks import calls, limits, machine, math_functions, measure, numpy_models, products, run, table, workloads
from gtensor.stages import Settings


@pytest.mark.parametrize("workload", numpy_models.STEPS)
def test_numpy_by_hand_shows_the_losses(workload):
    record = measure.measure("numpy:hand", workload, 0)
    assert len(record["losses"]) == measure.CHECKED
    assert "min_us" not in record


@pytest.mark.parametrize("mode", ["step", "compile", "fit"])
def test_the_modes_of_gtensor_show_the_losses(mode):
    record = measure.measure(f"gtensor:{mode}", "W1", 0)
    assert record["updates"] == (100 if mode == "fit" else 1)
    assert set(record["stages_ms"]) == {"trace", "find", "lower", "build"}


def test_the_step_without_blas_shows_the_losses():
    assert measure.measure("gtensor:noblas", "W2", 0)["losses"]


def test_wrong_losses_are_refused_before_anything_is_timed(monkeypatch):
    monkeypatch.setitem(workloads.LOSSES, "W1", (1.3648, 1.2979, 1.2422, 1.195, 1.155))
    monkeypatch.setattr(measure, "timed", lambda run, seconds: pytest.fail("timed"))
    with pytest.raises(ArithmeticError, match="the first losses are"):
        measure.measure("numpy:hand", "W1", 1.0)


def test_what_a_library_cannot_do_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["measure", "gtensor:fit", "W9", "--seconds", "0"])
    measure.main()
    assert '"skipped": "fit does not return the gradient of x"' in capsys.readouterr().out


def test_a_process_of_the_harness_gives_a_record_or_says_why_not(tmp_path):
    good = run.record("measure", "numpy:hand", "W1", "--seconds", "0", core=machine.last_core(), folder=tmp_path)
    assert good["losses"][0] == pytest.approx(workloads.LOSSES["W1"][0], rel=1e-4)
    bad = run.record("measure", "numpy:none", "W77", core=None, folder=tmp_path)
    assert "W77" in bad["error"]


def timed(contender, number, least, median, **more):
    """A made-up record of a round."""
    fields = {"version": "1.0", "updates": 1, "calls": 9, "import_s": 0.5, "first_s": 2.0, "rss_mb": 50.0}
    times = {"min_us": least, "median_us": median}
    return {"workload": "W1", "round": number, "contender": contender, **fields, **times, **more}


def cold(contender, **more):
    """A made-up record of a first call."""
    fields = {"version": "1.0", "updates": 1, "import_s": 0.7, "first_s": 3.0, "rss_mb": 50.0}
    return {"workload": "W1", "round": 0, "contender": contender, **fields, **more}


RECORDS = [
    {"date": "2001-02-03", "cpu": "A CPU", "vector_bits": 256, "compiler": "cc 1", "python": "3.11", "system": "Linux"}
    | {"pinned": True, "rounds": 2, "seconds": 1.0},
    cold("gtensor:step", prepare_s=0.5),
    cold("jax:jit"),
    {"workload": "W1", "round": 0, "contender": "torch:eager", "skipped": "No module named 'torch'"},
    {"workload": "W1", "round": 1, "contender": "limits", "gflops": 50.0, "copy_gbps": 10.0},
    timed("gtensor:step", 1, 5.0, 8.0, prepare_s=0.5, first_s=1.0),
    timed("jax:jit", 1, 40.0, 60.0),
    timed("jax:100steps", 1, 1.0, 1.0, updates=100),
    {"workload": "W1", "round": 2, "contender": "limits", "gflops": 80.0, "copy_gbps": 9.0},
    timed("gtensor:step", 2, 4.0, 6.0, prepare_s=0.25, first_s=0.125),
    timed("jax:jit", 2, 50.0, 80.0),
]


def test_a_ratio_is_that_of_the_least_times_of_all_rounds():
    cells = table.summary(RECORDS, ["W1"]).splitlines()[-1].strip("| ").split(" | ")
    floor = limits.floor_us("W1", 80.0, 10.0)
    assert cells[:6] == ["W1 mlp_tiny", f"{floor:.3g}", "4", f"{4 / floor:.2f}×", "40 jax:jit", "10.00× (10.00×)"]
    assert cells[6:] == ["–", "–", "–", "–"]


def test_first_calls_are_cold_from_the_empty_cache_and_cached_from_the_second_round():
    rows = table.details(RECORDS, "W1").splitlines()
    assert (
        rows[2] == f"| gtensor:step | 4 | 7 | {4 / limits.floor_us('W1', 80.0, 10.0):.2f}× | 3.5 | 0.375 | 0.5 | 50 |"
    )


def test_the_tables_say_where_and_what_was_left_out():
    text = table.markdown(RECORDS)
    assert text.startswith("2001-02-03, A CPU (256-bit vectors), Linux, cc 1, Python 3.11; gtensor 1.0, jax 1.0.")
    assert "- W1 torch:eager: left out: No module named 'torch'" in text
    assert "up to 0.5 s come once per machine" in text


def test_the_readme_takes_the_tables_again_and_again():
    readme = table.README.read_text(encoding="utf-8")
    once = table.insert(readme, "tables\n")
    assert table.insert(once, "tables\n") == once
    assert "tables\n" in once
    with pytest.raises(ValueError, match="no lines"):
        table.insert("# Benchmarks\n", "tables\n")


@pytest.mark.parametrize("route", ["tile", "blas"])
@pytest.mark.parametrize("form", products.FORMS)
def test_a_product_is_compared_with_float64_before_it_is_timed(form, route):
    assert products.prepared(form, 5, 7, 3, route, Settings.now().options)(3) == 0


def test_every_function_is_timed_and_its_errors_are_found():
    """The largest error at a few thousand points is that of a right result, and no less than rounding makes."""
    library, width = math_functions.prepared("", math_functions.FUNCTIONS, 16, Settings.now().options)
    assert width == 16
    for name in math_functions.FUNCTIONS:
        assert all(figure > 0 for figure in math_functions.nanoseconds([library], name, 0))
        assert 0.4 < math_functions.worst(library, name, 1_000_003) <= 4
        line = math_functions.row(name, ["gcc"], [library], 0, 1_000_003)
        assert line[0] == name and len(line) == 5 and (line[2] == "–") == (name not in math_functions.BARS)


def test_the_peak_and_the_empty_call_compile():
    assert products.peak(0, Settings.now().options) > 0
    assert calls.empty()() is None
