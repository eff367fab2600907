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


def _w8():
    rows, width = 256, 1024
    weights = 3 * (width * width + width)
    return Work(2 * rows * width * width * (3 + 3 + 2), rows * width * 12 + 2 * weights, weights * 4 * 3)


def _w9():
    count = 4096 * 512
    return Work(products=0, elementwise=count * (EXP_FLOPS + 45), memory=3 * count * 4)


WORK = {"W1": _w1(), "W2": _w2(), "W8": _w8(), "W9": _w9()}


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
