"""Compiled functions -> formulas, reports and explanations for people."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.codegen.llvm.call import Path
from symgrad.compiler import compile_graph
from symgrad.errors import UnsupportedError
from symgrad.frontend import transforms
from symgrad.frontend.hooks import prepared
from symgrad.frontend.leaves import Spec, as_spec, is_static
from symgrad.frontend.lines import is_internal
from symgrad.frontend.methods import roots
from symgrad.frontend.trace import Traced, trace_call
from symgrad.frontend.tracer import Tracer
from symgrad.frontend.tracing import current_trace
from symgrad.frontend.tree import flatten
from symgrad.ir.graph import Graph
from symgrad.ir.loops import Failure, For, statements
from symgrad.ir.sizes import assuming
from symgrad.ir.types import f64
from symgrad.lower.regions import TAPE_FULL
from symgrad.lower.report import decisions
from symgrad.passes.simplify import simplify
from symgrad.passes.simplify import simplify as simplified
from symgrad.symbolic.bridge import is_small
from symgrad.symbolic.formula import Formula, scalar_formula
from symgrad.symbolic.proof import verify_gradient, verify_rules
from symgrad.symbolic.report import Check, Report
from symgrad.symbolic.unrolled import unrolled

if TYPE_CHECKING:
    from symgrad.frontend.compiled import Compiled, Variant


@contextmanager
def local_names() -> Iterator[None]:
    """Let the trace note the names that the user's functions give to values, as these functions return."""

    def on_return(frame: FrameType, event: str, argument: Any) -> None:
        if event == "return" and not is_internal(frame.f_code.co_filename):
            arguments = set(frame.f_code.co_varnames[: frame.f_code.co_argcount])
            for name, x in frame.f_locals.items():
                if type(x) is Tracer and name not in arguments:
                    current_trace().labels.setdefault(x.node, name)

    before = sys.getprofile()
    sys.setprofile(on_return)
    try:
        yield
    finally:
        sys.setprofile(before)


def gradient_parts(compiled: Compiled) -> tuple[Any, tuple[int, ...]]:
    """The user's function and the positions that are differentiated."""
    argnums = compiled.settings.get("argnums", ())
    if compiled.transform not in ("jit", "grad", "value_and_grad"):
        raise UnsupportedError(f"formula and verify are for jit, grad and value_and_grad, not for {compiled.transform}")
    return compiled.__wrapped__, (argnums,) if isinstance(argnums, int) else tuple(argnums)


def formula(compiled: Compiled, specs: dict[str, Any], *, simplify: bool, expand: bool) -> Formula:
    """Trace value and gradient for scalars (or the given specs) and read the formula off the graph."""
    fun, argnums = gradient_parts(compiled)
    parameters = [
        q for q in inspect.signature(fun).parameters.values() if q.kind not in (q.VAR_POSITIONAL, q.VAR_KEYWORD)
    ]
    unknown = set(specs) - {q.name for q in parameters}
    if unknown:
        raise TypeError(f"formula: {compiled.__name__} has no argument {', '.join(sorted(unknown))}")
    args = {q.name: as_spec(specs[q.name]) if q.name in specs else _default(q) for q in parameters}
    names = [n for n, a in args.items() if isinstance(a, Spec)]
    positional = tuple(args[q.name] for q in parameters if q.kind is not q.KEYWORD_ONLY)
    keywords = {q.name: args[q.name] for q in parameters if q.kind is q.KEYWORD_ONLY}
    traced = _trace(compiled, fun, argnums, positional, keywords)
    try:
        graph = simplified(unrolled(traced.unchecked))
        if not is_small(graph) and any(n.op.name == "loop" for n in traced.unchecked.nodes()):
            raise UnsupportedError("a loop over arrays has no formula yet")
    except UnsupportedError as e:
        raise transforms.about(UnsupportedError(f"{compiled.__name__}: {e}"), fun) from None
    wrt = [names.index(parameters[k].name) for k in argnums]
    return scalar_formula(
        graph, title=compiled.__name__, names=[*names, *_captured_names(traced)], wrt=wrt, simplify=simplify,
        expand=expand, labels=dict(traced.labels),
    )  # fmt: skip


def _default(parameter: inspect.Parameter) -> Any:
    return Spec(f64) if parameter.default is parameter.empty else parameter.default


def _captured_names(traced: Traced) -> list[str]:
    names = [str(reach) for reach, _ in traced.captures]
    return [name if name.isidentifier() and names.count(name) == 1 else f"c{k}" for k, name in enumerate(names)]


def _trace(
    compiled: Compiled, fun: Any, argnums: tuple[int, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Traced:
    def flat(*args: Any, **kwargs: Any) -> Any:
        if not argnums:
            return (prepared(fun)(*args, **kwargs),)
        value, grads = transforms.value_and_grad(fun, argnums, compiled.settings.get("has_aux", False))(*args, **kwargs)
        return value[0] if compiled.settings.get("has_aux") else value, *flatten(grads)[0]

    leaves, tree = flatten((args, kwargs))
    with local_names():
        return trace_call(
            flat,
            leaves,
            tree,
            free=False,
            stabilize=compiled.options.stabilize,
            specs=True,
            roots=roots(compiled.__wrapped__),
        )


def verify(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Report:
    """Each primitive's rule, then the whole gradient at these arguments."""
    fun, argnums = gradient_parts(compiled)
    args, kwargs = compiled.bound(args, kwargs)
    leaves, _ = flatten((args, kwargs))
    primal = _trace(compiled, fun, (), args, kwargs)
    full = _trace(compiled, fun, argnums, args, kwargs)
    values = [np.asarray(x) for x in leaves if not is_static(x)]
    captured = [np.asarray(reach.read()) for reach, _ in primal.captures]
    inputs = [*values, *captured]
    with assuming(primal.sizes):
        checks = verify_rules(primal.unchecked, inputs)
    if argnums:
        wrt = _numeric_positions(args, argnums)
        value = Graph(primal.graph.params, primal.graph.results[:1])
        with assuming(full.sizes):
            computed = compile_graph(full.unchecked, "verified", backend=compiled.options.backend)(inputs, {})
            checks += verify_gradient(value, full.unchecked, inputs, wrt=wrt, computed=computed[1:])
        checks.append(_against_python(compiled, args, kwargs, computed[0]))
    return Report(tuple(checks))


def _against_python(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any], computed: Any) -> Check:
    """Whether the compiled value is what Python gives when it runs the user's function."""
    name, how = f"value of {compiled.__name__}", "compared with the function as Python runs it"
    try:
        with np.errstate(all="ignore"):
            plain = compiled.__wrapped__(*args, **kwargs)
    except Exception as e:  # whatever the user's function raises
        return Check(name, how, False, f"it raises {type(e).__name__}: {e}")
    want = float(plain[0] if compiled.settings.get("has_aux") else plain)
    if compiled.options.stabilize and not np.isfinite(want):
        return Check(name, how, True, "not a finite number there; the stable form is")
    close = bool(np.isclose(computed, want, rtol=1e-3 if computed.dtype.itemsize < 8 else 1e-8, atol=1e-12))
    return Check(name, how, close, f"{computed:.6g}" if close else f"{computed:.16g} instead of {want:.16g}")


def _numeric_positions(args: tuple[Any, ...], argnums: tuple[int, ...]) -> list[int]:
    """Which inputs of the graph belong to the differentiated arguments."""
    owner = [k for k, a in enumerate(args) for leaf in flatten(a)[0] if not is_static(leaf)]
    return [i for n in argnums for i, k in enumerate(owner) if k == n % len(args)]


def explain(compiled: Compiled) -> str:
    """One paragraph for each program made so far."""
    if not compiled.variants:
        return f"{compiled.__name__}: not compiled yet"
    return "\n\n".join(_explained(compiled, k, v) for k, v in enumerate(compiled.variants))


def _explained(compiled: Compiled, k: int, variant: Variant) -> str:
    traced, program = variant.traced, variant.executable.program
    loops = sum(isinstance(s, For) for s in statements(program.body))
    temps = [b for b in program.buffers if b.kind == "temp"]
    assumed = [str(g) for g in traced.sizes.guards]
    lengths = (
        "any lengths" if variant.shapes is None else f"lengths {list(variant.shapes)}" if variant.shapes else "numbers"
    )
    raised = sorted({f.exception for f in program.failures if f != Failure(*TAPE_FULL)})
    with assuming(traced.sizes):
        decided = decisions(variant.executable.graph, workers=compiled.options.workers)
        before = len(traced.graph.nodes())
        after = len(simplify(traced.graph).nodes())
    return "\n".join(
        [
            f"program {k + 1} of {compiled.__name__} ({compiled.transform}), for {lengths}",
            f"  rewritten for stability: {', '.join(traced.rewrites) or 'nothing'}",
            f"  graph: {before} nodes, {after} after simplification",
            f"  loops: {loops}; temporaries: {_sizes(temps)}",
            *(f"    {line}" for line in decided),
            f"  read from outside at each call: {', '.join(str(r) for r, _ in traced.captures) or 'nothing'}",
            f"  may raise: {', '.join(raised) or 'nothing'}",
            f"  assumed of lengths: {', '.join(assumed) or 'nothing'}",
            f"  calls: {_called(compiled.path_of(variant))}",
            f"  code: {'compiled' if variant.executable.native.compiled else 'from the disk cache'}",
        ]
    )


def _called(path: Path | str | None) -> str:
    match path:
        case None:
            return "native from the second one on, if possible"
        case str():
            return f"through Python, since {path}"
        case Path():
            return "native"


def _sizes(temps: list[Any]) -> str:
    return ", ".join(f"{b.name} {b.dtype}[{b.elements}]" for b in temps) or "none"
