"""How long a program takes from the start of its process to the end of its first step, and what of it is gtensor.

    python -m benchmarks.start

W1's training step, compiled before, made from Python as a user writes it; and the same step loaded from the folder that
`save` wrote. Beside them stand processes that only import NumPy, or gtensor. All take turns; bytecode is cached, as it
is where packages are installed.
"""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

from . import machine
from .table import grid

ROUNDS = 25

STEP = """
import numpy as np
import gtensor as gt

def loss(params, x, y):
    h = gt.nn.gelu(gt.nn.linear(x, params["w1"], params["b1"]))
    return gt.nn.mse_loss(gt.nn.linear(h, params["w2"], params["b2"]), y)

rng = np.random.default_rng(0)
def weights(*shape):
    return rng.standard_normal(shape).astype(np.float32)
params = {"w1": weights(8, 32), "b1": np.zeros(32, np.float32), "w2": weights(32, 4), "b2": np.zeros(4, np.float32)}
x, y = weights(32, 8), weights(32, 4)
train = gt.TrainStep(loss, params, gt.optim.sgd(0.01), x, y)
train(x, y)
"""

LOADED = """
import sys
import numpy as np
import gtensor as gt
train = gt.load(sys.argv[1])
train(np.ones((32, 8), np.float32), np.ones((32, 4), np.float32))
"""

PROGRAMS = {
    "nothing": "",
    "import numpy": "import numpy",
    "import gtensor": "import gtensor",
    "W1, cached, to the end of its first step": STEP,
    "W1, loaded from a folder, likewise": LOADED,
}


def seconds(code, environment, *arguments):
    """From the start of a process to its end."""
    command = [sys.executable, "-c", code, *arguments]
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True)
    return time.perf_counter() - start


def main():
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        # Bytecode of everything, in a folder of this program's own; whether it is written at all is the user's choice.
        own = {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "GT_CACHE": f"{folder}/cache"}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | own
        model = f"{folder}/model"
        seconds(f"{STEP}\ntrain.save({model!r})", environment)
        taken = {name: [] for name in PROGRAMS}
        for warm in [True, *[False] * ROUNDS]:
            for name, code in PROGRAMS.items():
                took = seconds(code, environment, model)
                if not warm:
                    taken[name].append(took)
    base = taken["import numpy"]
    rows = [
        [
            name,
            *(f"{1000 * of(times):.0f}" for of in (min, statistics.median)),
            *(f"{1000 * (of(times) - of(base)):.0f}" for of in (min, statistics.median)),
        ]
        for name, times in taken.items()
    ]
    print(f"{machine.cpu()}, Python {platform.python_version()}, {ROUNDS} processes each, in turns; milliseconds\n")
    print(grid(["process", "min", "median", "over numpy, min", "median"], rows))


if __name__ == "__main__":
    main()
