"""What the machine can do, and the time a step of each workload would take at that: the yardstick.

    python -m benchmarks.limits

measures the peak of BLAS on large squares and the bandwidth of a large copy. A floor counts the multiply-adds of the
products of forward and backward pass (the gradient of x only where it is asked for), an estimate of the elementwise
work, and the bytes that no cache keeps; calls, packing and small products cost nothing in it. A good hand can beat
the estimate of the elementwise work.
"""

import json
import sys
import time
from typing import NamedTuple

import numpy as np

from . import machine

EXP_FLOPS = 12
"""Of one exp or tanh, as a polynomial on vectors."""

SIMD_EFFICIENCY = 0.25
"""Part of the peak that elementwise code reaches: few multiply-adds, divisions, loads and stores."""

SQUARES = (1024, 1536, 2048)
COPIED = 64 << 20


class Work(NamedTuple):
    """Floating-point operations of the products and of the elementwise work, and bytes from memory, of one step."""

    products: int
    elementwise: int
    memory: int = 0


def _w1():
    rows, weights = 32, 8 * 32 + 32 + 32 * 4 + 4
    return Work(
        products=2 * rows * (8 * 32 * 2 + 32 * 4 * 3),
        elementwise=rows * 32 * (EXP_FLOPS + 25) + rows * 4 * 6 + 2 * weights,
    )


def _w2():
    rows, weights = 128, 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10
    return Work(
        products=2 * rows * (784 * 256 * 2 + (256 * 128 + 128 * 10) * 3),
        elementwise=rows * (256 + 128) * 4 + rows * 10 * (EXP_FLOPS + 8) + weights * 14,
    )


def _w3():
    steps, rows, width, ins = 64, 32, 64, 16
    weights = 2 * ((width + ins) * width + width) + width * ins + ins
    gates = 2 * width * (width + ins) * 2 + 2 * width * width
    return Work(
        products=2 * steps * rows * (gates + 3 * width * ins),
        elementwise=steps * rows * (width * (2 * EXP_FLOPS + 25) + ins * 5) + weights * 14,
    )


def _w4():
    sets, members, width, ins = 64, 16, 64, 8
    rows, weights = sets * members, ins * width + width + 3 * width * width + width * ins + ins
    products = 2 * rows * (ins * width * 2 + 3 * width * width * 3) + 2 * sets * width * ins * 3
    scores = sets * members * members
    return Work(
        products=products + 2 * scores * width * (2 + 4),
        elementwise=scores * (EXP_FLOPS + 12) + rows * width * 10 + weights * 14,
    )


def _w5():
    """The first layer once: it does not change while the activities settle."""
    rows, ins, width, outs, steps = 64, 64, 128, 10, 20
    weights = ins * width + width + width * outs + outs
    settling = steps * (outs * (EXP_FLOPS + 6) + width * 5)
    return Work(
        products=2 * rows * (2 * ins * width + (2 * steps + 2) * width * outs),
        elementwise=rows * (width * EXP_FLOPS + settling) + 2 * weights,
    )


def _w6():
    layers, width, length, batch, words, heads = 4, 128, 64, 16, 65, 4
    rows = batch * length
    weights = 2 * words * width + length * width + layers * (12 * width * width + 13 * width) + 2 * width
    layer = rows * 4 * width * (EXP_FLOPS + 25) + batch * heads * length * length * (EXP_FLOPS + 12) + rows * width * 60
    return Work(
        products=layers * (2 * rows * 12 * width * width * 3 + 2 * batch * length * length * width * (2 + 4))
        + 2 * rows * width * words * 3,
        elementwise=layers * layer + rows * words * (EXP_FLOPS + 8) + weights * 15,
        memory=weights * 4 * 7 + layers * rows * width * 4 * 2 * 20,
    )


def _w7():
    batch, dense = 64, 256 * 120 + 120 * 84 + 84 * 10
    first, second = batch * 24 * 24 * 6 * 25, batch * 8 * 8 * 16 * 150
    weights = 6 * 26 + 16 * 151 + dense + 120 + 84 + 10
    return Work(
        products=2 * (first * 2 + second * 3 + batch * dense * 3),
        elementwise=batch * (6 * 576 + 16 * 64 + 204) * (EXP_FLOPS + 6) + batch * 10 * (EXP_FLOPS + 8) + weights * 14,
    )


def _w8():
    rows, width = 256, 1024
    weights = 3 * (width * width + width)
    return Work(2 * rows * width * width * (3 + 3 + 2), rows * width * 12 + 2 * weights, weights * 4 * 3)


def _w9():
    count = 4096 * 512
    return Work(products=0, elementwise=count * (EXP_FLOPS + 45), memory=3 * count * 4)


WORK = {f"W{n}": work() for n, work in enumerate((_w1, _w2, _w3, _w4, _w5, _w6, _w7, _w8, _w9), 1)}


def floor_us(workload, gflops, copy_gbps):
    """The yardstick of a workload in microseconds."""
    work = WORK[workload]
    computing = (work.products + work.elementwise / SIMD_EFFICIENCY) / gflops
    return max(computing, work.memory / copy_gbps) / 1e3


def fastest(call, seconds):
    """The shortest of the calls that fit into that time (three at least)."""
    best, end, count = float("inf"), time.perf_counter() + seconds, 0
    while (begin := time.perf_counter()) < end or count < 3:
        call()
        best, count = min(best, time.perf_counter() - begin), count + 1
    return best


def measure(seconds):
    """GFLOP/s of float32 products in NumPy's BLAS, GB/s of a copy (bytes read and written)."""
    gflops = 0.0
    for n in SQUARES:
        a, b = np.random.default_rng(0).random((2, n, n), np.float32)
        c = np.empty((n, n), np.float32)
        gflops = max(gflops, 2e-9 * n**3 / fastest(lambda a=a, b=b, c=c: np.matmul(a, b, out=c), seconds))
    source, target = np.ones((2, COPIED // 4), np.float32)
    copy_gbps = 2e-9 * COPIED / fastest(lambda: np.copyto(target, source), seconds)
    return {"gflops": gflops, "copy_gbps": copy_gbps}


def main():
    machine.alone()
    found = measure(0.5)
    if sys.argv[1:] == ["--json"]:
        print(json.dumps(found))
        return
    print(f"products {found['gflops']:.1f} GFLOP/s, copy {found['copy_gbps']:.1f} GB/s\n")
    for name, work in WORK.items():
        print(f"{name} {floor_us(name, **found):10.1f} µs   {1e-6 * work.products:8.1f} MFLOP in products")


if __name__ == "__main__":
    main()
