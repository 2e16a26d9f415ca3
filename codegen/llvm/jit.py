"""Program -> native function in this process, through LLVM's optimiser, a relocatable object and ORC.

The object holds no address of this process, so that it can be kept on disk; external symbols are resolved when it is
loaded. Compilation and loading take a lock; calls take none and release Python's.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from symgrad.codegen.llvm import blas, functions, rare, threads
from symgrad.codegen.llvm.cache import ObjectCache
from symgrad.codegen.llvm.emit import emit
from symgrad.codegen.llvm.target import binding, host
from symgrad.errors import UnsupportedError
from symgrad.ir.loops import Parallel, Program, statements

_LOCK = threading.RLock()
_LIBRARIES = itertools.count()
_DECLARED = re.compile(r"^declare [^@\n]*@([\w.]+)", re.MULTILINE)
_PIPELINE = "3"  # counts changes below that make other code of the same text
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@final
@dataclass(frozen=True, eq=False)
class Native:
    """A loaded function.

    ``call(buffers, sizes, workspace)`` takes ctypes arrays or addresses, returns the status and runs without the
    interpreter lock. ``compiled`` is False when the object came from the disk cache. Machine code lives as long as
    ``call`` does.
    """

    address: int
    compiled: bool
    source: str
    call: Callable[[Any, Any, Any], int]

    @functools.cached_property
    def llvm(self) -> str:
        """The optimised IR, made again from the source."""
        with _LOCK:
            return str(_optimised(self.source))

    @functools.cached_property
    def asm(self) -> str:
        with _LOCK:
            return str(_machine(self.source).emit_assembly(_optimised(self.source)))


def load(program: Program, *, cache: ObjectCache | None = None) -> Native:
    """Compile a program, or find it in ``cache``."""
    # With a dot in its name it cannot hide a C function that it calls.
    symbol = f"sg.{program.name}"
    native = load_text(emit(dataclasses.replace(program, name=symbol)), symbol, cache=cache)
    workers = max((s.workers for s in statements(program.body) if isinstance(s, Parallel)), default=1)
    if workers > 1:
        threads.start(_pool(cache), workers)
    return native


def load_text(
    source: str, symbol: str, *, symbols: Mapping[str, int] | None = None, cache: ObjectCache | None = None
) -> Native:
    """Compile a module of text and load its function ``symbol``; it has the signature of a Program.

    What it calls is found in ``symbols`` (name -> address), in BLAS for names with ``sg_``, in this process.
    """
    declared = [name for name in _DECLARED.findall(source) if not name.startswith("llvm.")]
    addresses = {**blas.addresses(declared), **(symbols or {})}
    with _LOCK:
        addresses |= {name: _pool(cache)[name] for name in (threads.SHARE, threads.SHARE_BLAS) if name in declared}
        if threads.SHARE_BLAS in declared:
            threads.quieten(_pool(cache), blas.thread_count())
        for name, bits in rare.wanted(declared):
            library = _rare(name, bits, cache)
            addresses |= {n: library[n] for n in rare.exports(name, bits)}
        image, compiled = _cached(source, compile_object, cache)
        try:
            library = _link(image, (symbol,), addresses)
        except RuntimeError as error:
            missing = [n for n in declared if n not in addresses and not binding().address_of_symbol(n)]
            raise UnsupportedError(f"{symbol} cannot be linked; not found: {', '.join(missing)}") from error
    call = _PROTOTYPE(library[symbol])
    call.library = library  # type: ignore[attr-defined]  # a reference, for the life of the code
    return Native(library[symbol], compiled, source, call)


def load_plain(
    source: str, exports: Sequence[str], symbols: Mapping[str, int], *, cache: ObjectCache | None = None
) -> Any:
    """Compile a module of text as it stands, without the optimiser, and load it.

    Everything it refers to is in ``symbols``. ``library[name]`` is the address of an export, as long as it is kept.
    """
    with _LOCK:
        image, _ = _cached(source, _plain_object, cache)
        return _link(image, exports, symbols)


_RARE: dict[tuple[str, int], Any] = {}  # libraries that others refer to: they live as long as the process


def _rare(name: str, bits: int, cache: ObjectCache | None) -> Any:
    if (name, bits) not in _RARE:
        _RARE[name, bits] = load_plain(rare.module(name, bits), rare.exports(name, bits), {}, cache=cache)
    return _RARE[name, bits]


_POOL: list[Any] = []


def _pool(cache: ObjectCache | None) -> Any:
    """The threads that help; one pool in a process."""
    with _LOCK:
        if not _POOL:
            _POOL.append(threads.keep(load_plain(threads.TEXT, threads.EXPORTS, {}, cache=cache)))
        return _POOL[0]


def _cached(source: str, compiler: Callable[[str], bytes], cache: ObjectCache | None) -> tuple[bytes, bool]:
    """The object of a module, and whether it had to be compiled."""
    key = cache.key(source, compiler.__name__, _PIPELINE, *dataclasses.astuple(host())) if cache else ""
    image = cache.get(key) if cache else None
    if image is not None:
        return image, False
    image = compiler(source)
    if cache:
        cache.put(key, image)
    return image, True


def compile_object(source: str) -> bytes:
    """A relocatable object file for this machine."""
    with _LOCK:
        return bytes(_machine(source).emit_object(_optimised(source)))


def _plain_object(source: str) -> bytes:
    machine = _machine_of_level(0)  # three times faster to compile than the next level, and no slower to call
    return bytes(machine.emit_object(_parsed(source, machine)))


def _link(image: bytes, exports: Sequence[str], addresses: Mapping[str, int]) -> Any:
    builder = binding().JITLibraryBuilder().add_object_img(image).add_current_process()
    for name in exports:
        builder.export_symbol(name)
    for name, address in addresses.items():
        builder.import_symbol(name, address)
    return builder.link(_linker(), f"symgrad{next(_LIBRARIES)}")


@functools.cache
def _linker() -> Any:
    """JITLink: a library lies in one piece of memory, so that 32-bit offsets reach, and missing symbols are errors."""
    linker = binding().create_lljit_compiler(host().machine(), use_jit_link=True, suppress_errors=True)
    linker._owned = True  # never disposed of: the last functions die after it would
    return linker


# Lines of text -> how hard to try. Measured for straight-line code of 10 000 operations: the pipeline 1.6 s, of which
# SLP 1.2; code generation 1.9 s, without register allocation and scheduling 0.12.
_SLP_LINES = 4_000
_UNROLLED_LINES = 1_500  # a network's 3000 lines: 1.0 s with unrolling, 0.45 s without, a sixth slower in a call
_OPTIMISED_LINES = 20_000


def _is_huge(source: str) -> bool:
    return source.count("\n") > _OPTIMISED_LINES


def _machine(source: str) -> Any:
    return _machine_of_level(0 if _is_huge(source) else 2)


@functools.cache
def _machine_of_level(level: int) -> Any:
    return host().machine(level)


def _parsed(source: str, machine: Any) -> Any:
    llvm = binding()
    module = llvm.parse_assembly(source, llvm.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return module


def _optimised(source: str) -> Any:
    llvm = binding()
    machine = _machine(source)
    module = _parsed(source, machine)
    if not _is_huge(source):
        lines = source.count("\n")
        run_passes(module, machine, slp=lines <= _SLP_LINES, unroll=lines <= _UNROLLED_LINES)
        return module
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2)))
    return module


def run_passes(module: Any, machine: Any, *, slp: bool, unroll: bool = True) -> None:
    """Optimise ``module`` for ``machine``, and inline the vector versions that the vectoriser took."""
    llvm = binding()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.loop_interleaving = True
    options.loop_unrolling = unroll
    options.slp_vectorization = slp
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    if not any(g.name == functions.KEPT[1:] for g in module.global_variables):
        return
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
