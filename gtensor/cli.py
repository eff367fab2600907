"""The command `gtensor`: demo, inspect, build, export, cache, doctor.

Comes in: the command line. Goes out: plain text on standard output, an exit status. Law: a mistake of the user is
one message on standard error, never a traceback.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from . import demo, doctor
from .api import CompiledFunction, Executable, compile
from .codegen import build
from .codegen.platforms import NATIVE, PLATFORMS
from .config import byte_count, config
from .errors import GTensorError, OptionError
from .exporting import PARAMETERS, VARIANTS, export
from .report import amount, text
from .resident import Resident
from .stages import Inspected, Lowered, Settings
from .trace import Spec, spec
from .types import DTYPES


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except GTensorError as error:
        print(f"gtensor: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gtensor", description="NumPy-style Python, traced, differentiated and compiled to readable C."
    )
    version = sys.modules[__package__ or "gtensor"].__version__
    parser.add_argument("--version", action="version", version=f"gtensor {version}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")

    command = commands.add_parser("demo", help="train on handwritten digits in generated C")
    command.add_argument("--quick", action="store_true", help="a quarter of the epochs, for a first look or a test")
    command.set_defaults(run=lambda arguments: demo.main(quick=arguments.quick))

    about = "Show what becomes of a function: its graph, the loops, the C, the assembly."
    command = _of_function(commands, "inspect", "show a stage of a function's compilation", about)
    command.add_argument("--stage", choices=STAGES, default="c", help="what to show (default: c)")
    command.set_defaults(run=_inspect)

    about = "Compile a function, or what a TrainStep or Resident of a module is, into a folder for gt.load."
    command = _of_function(commands, "build", "compile a function ahead of time into a folder", about)
    command.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where to, such as build/name")
    command.add_argument(
        "--target", choices=PLATFORMS, default=NATIVE, help="machines to build for (default: like this)"
    )
    command.set_defaults(run=_build)

    about = "Write a step or function of a module as C99 with a header, an example and a Makefile."
    command = _of_function(commands, "export", "write a step or function as a C project that needs no Python", about)
    command.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where to, such as build/mlp")
    command.add_argument("--predict", metavar="module:function", help="what step.bind gave")
    command.add_argument("--predict-only", action="store_true", help="leave out the step, and state that only it uses")
    command.add_argument("--parameters", choices=PARAMETERS, default="array", help="file: beside the C, not in it")
    command.add_argument("--prefix", default="model", help="begins all names of the C (default: model)")
    command.add_argument("--variant", choices=VARIANTS, default="portable", help="vector: for this machine's vectors")
    command.add_argument("--target", choices=PLATFORMS, default=NATIVE, help="for whose vectors (default: this one's)")
    command.set_defaults(run=_export)

    command = commands.add_parser("cache", help="list, describe, prune or clear the compiled models")
    actions = command.add_subparsers(title="actions", required=True, metavar="action")
    for name, (run, about) in CACHE.items():
        action = actions.add_parser(name, help=about)
        action.set_defaults(run=run)
        if name == "prune":
            action.add_argument("--size", type=_size, metavar="SIZE", help="bytes to keep at most, such as 500M or 2G")
            action.add_argument("--days", type=float, help="remove what was not used for so many days")

    command = commands.add_parser("doctor", help="look at compiler, BLAS, CPU and cache, and test compiled code")
    command.set_defaults(run=lambda arguments: doctor.main())
    return parser


SPECS = "a spec is a type, or a pytree of types: f32[32,8]  i64[]  f32[B<=512,784]  {'w': f32[8,4]}"


def _of_function(commands: Any, name: str, help: str, description: str) -> argparse.ArgumentParser:
    """A command that takes a function and the specs of its arguments."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=help, description=description, epilog=SPECS)
    command.add_argument("function", metavar="module:function", help="what to import, such as train:loss_fn")
    command.add_argument("--spec", action="append", default=[], help="the type of one argument; repeat for each")
    return command


# ---- inspect, build ---------------------------------------------------------------------------------------

STAGES = ("trace", "simplified", "schedule", "program", "memory", "kernels", "c", "assembly")


def _inspect(arguments: argparse.Namespace) -> int:
    lowered, last = _found(arguments.function, [parse_spec(given) for given in arguments.spec])
    print(_SHOW.get(arguments.stage, _show_stage(arguments.stage))(lowered, last).rstrip("\n"))
    return 0


def _build(arguments: argparse.Namespace) -> int:
    found = _compiled(arguments.function, arguments.spec, arguments.target)
    if not isinstance(found, (Executable, CompiledFunction, Resident)):
        raise OptionError(f"{arguments.function} is {type(found).__name__}, which cannot be saved by itself")
    found.save(arguments.output, target=arguments.target)
    _print_files(path for path in sorted(Path(arguments.output).rglob("*")) if path.is_file())
    return 0


def _export(arguments: argparse.Namespace) -> int:
    found = _compiled(arguments.function, arguments.spec, arguments.target)
    predict = _compiled(arguments.predict, [], arguments.target)
    options = {name: getattr(arguments, name) for name in ("predict_only", "parameters", "prefix", "variant", "target")}
    _print_files(export(arguments.output, found, predict=predict, **options))
    sizes = (Path(arguments.output) / f"{arguments.prefix}.h").read_text(encoding="utf-8")
    state, work = (re.search(rf"_{name}_BYTES (\d+)", sizes) for name in ("STATE", "WORK"))
    assert state and work
    print(f"state {amount(int(state[1]), 'B')}, work {amount(int(work[1]), 'B')}")
    return 0


def _compiled(path: str | None, specs: Sequence[str], target: str) -> Any:
    """What a name means, compiled for this machine: GT_CC does not count if it names a compiler for another system."""
    if path is None:
        return None
    with config(cc="") if PLATFORMS[target].foreign else contextlib.nullcontext():
        return _found(path, [parse_spec(given) for given in specs])[1]()


def _print_files(paths: Iterable[Path]) -> None:
    for path in paths:
        print(f"{amount(path.stat().st_size, 'B'):>9}  {path}")


def _show_stage(stage: str) -> Callable[[Lowered, Callable[[], Inspected]], str]:
    return lambda lowered, last: lowered.as_text(stage)


_SHOW: dict[str, Callable[[Lowered, Callable[[], Inspected]], str]] = {
    "trace": lambda lowered, last: lowered.traced.as_text(),
    "kernels": lambda lowered, last: text(last().kernels),
    "assembly": lambda lowered, last: last().assembly,
}


def _found(path: str, specs: Sequence[Any]) -> tuple[Lowered, Callable[[], Inspected]]:
    """The stages of what `module:name` means, and how to have it compiled."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise OptionError(f"{path!r} is no module:function", hint="such as train:loss_fn for loss_fn of train.py")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise OptionError(f"there is no module {error.name!r}", hint="start where python would find it") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise OptionError(f"{module} has no {name!r}")
        found = getattr(found, part)
    if isinstance(found, Inspected) and not (isinstance(found, CompiledFunction) and specs):
        return found.compiled.lowered, lambda: found
    if not callable(found):
        raise OptionError(f"{path} is {type(found).__name__}, no function")
    if not isinstance(found, CompiledFunction):
        _require_specs(path, found, specs)
    function = found if isinstance(found, CompiledFunction) else compile(found)
    lowered = function.trace(*specs).lower()
    return lowered, lowered.compile


def _require_specs(path: str, function: Callable[..., Any], specs: Sequence[Any]) -> None:
    """Raise OptionError unless the specs are as many as the function takes."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(*specs)
    except TypeError as error:
        hint = "one --spec for each argument, in order, such as --spec f32[32,8]"
        raise OptionError(f"{path}: {error}", hint=hint) from None


def parse_spec(given: str) -> Any:
    """The spec that a text such as `f32[32,8]` or `{'w': f32[B<=512,4]}` stands for; raises OptionError.

    >>> str(parse_spec("f32[B<=512,784]"))
    'f32[B,784]'
    >>> parse_spec("[i64[], 0.5]")[1]
    0.5
    """
    try:
        python = re.sub(r"\b(\w+)\[\s*\]", r"\1[()]", given.strip())  # f32[] is no expression of Python's, f32[()] is
        return _spec_of(ast.parse(python, mode="eval").body)
    except GTensorError:
        raise
    except (SyntaxError, ValueError, RecursionError):
        raise OptionError(f"--spec {given!r} is no type", hint="such as f32[32,8], i64[], {'w': f32[8]}") from None


_BY_NAME = {name: dtype for dtype in DTYPES for name in (dtype.name, dtype.tag)}


def _spec_of(node: ast.expr) -> Any:
    if isinstance(node, ast.Dict):
        keys = [ast.literal_eval(key) for key in node.keys if key is not None]
        return dict(zip(keys, map(_spec_of, node.values), strict=True))
    if isinstance(node, (ast.List, ast.Tuple)):
        made = [_spec_of(item) for item in node.elts]
        return made if isinstance(node, ast.List) else tuple(made)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _BY_NAME:
        extents = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _array_spec(node.value.id, extents)
    return ast.literal_eval(node)


def _array_spec(dtype: str, extents: Sequence[ast.expr]) -> Spec:
    shape: list[int | str] = []
    bounds: dict[str, int] = {}
    for extent in extents:
        if isinstance(extent, ast.Compare) and isinstance(extent.left, ast.Name) and isinstance(extent.ops[0], ast.LtE):
            bounds[extent.left.id] = int(ast.literal_eval(extent.comparators[0]))
            shape.append(extent.left.id)
        else:
            shape.append(int(ast.literal_eval(extent)))
    return spec(shape, _BY_NAME[dtype], max=bounds)


# ---- cache -----------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace) -> int:
    lines = build.cache(Settings.now().options).listing()
    for line in lines:
        wrong = f"  damaged: {line['wrong']}" if line["wrong"] else ""
        label = line["label"] or line["path"].name[:12]
        print(f"{amount(line['bytes'], 'B'):>9}  {_ago(line['idle']):>9}  {label}{wrong}")
    if not lines:
        print("the cache is empty")
    return 0


def _info(arguments: argparse.Namespace) -> int:
    options = Settings.now().options
    info = build.cache(options).info()
    print(f"folder   {info['folder']}{'' if info['usable'] else '  (not there, read-only or unsafe)'}")
    bound = amount(options.cache_size, "B")
    print(f"entries  {info['entries']}, {amount(info['bytes'], 'B')} of at most {bound}; {info['used']} in use")
    print(f"leftover {info['drafts']} unfinished builds, {info['failed']} failed ones kept for reading")
    return 0


def _prune(arguments: argparse.Namespace) -> int:
    idle = None if arguments.days is None else 86400 * arguments.days
    count = build.cache(Settings.now().options).prune(max_bytes=arguments.size, max_idle=idle)
    print(f"{count} removed")
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    print(f"{build.cache(Settings.now().options).clear()} removed")
    return 0


CACHE: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "list": (_list, "every compiled model: size, last use, name"),
    "info": (_info, "where the cache is and how much it holds"),
    "prune": (_prune, "remove leftovers, damaged entries, and by --size or --days the longest unused"),
    "clear": (_clear, "remove everything"),
}


def _size(given: str) -> int:
    try:
        return byte_count(given)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _ago(seconds: float) -> str:
    """How long ago, in one unit.

    >>> _ago(30), _ago(7200)
    ('30 s ago', '2 h ago')
    """
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


if __name__ == "__main__":
    sys.exit(main())
