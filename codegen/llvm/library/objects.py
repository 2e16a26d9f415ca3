"""Modules of text -> optimised modules for some machine, with everything in them that they need."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from symgrad.codegen.llvm import rare
from symgrad.codegen.llvm.jit import run_passes
from symgrad.codegen.llvm.target import binding, host
from symgrad.errors import ExportError

_DECLARED = re.compile(r"^declare [^@\n]*@([\w.]+)", re.MULTILINE)
# Without fused multiply-add the elementary functions would call it, and be slow.
BASELINE = {"x86_64": "x86-64-v3", "aarch64": "generic", "arm64": "generic"}


@dataclass(frozen=True)
class Machine:
    """What objects are made for: an LLVM triple, and a processor by name."""

    triple: str
    cpu: str
    features: str

    @functools.cached_property
    def llvm(self) -> Any:
        target = binding().Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="pic", codemodel="default", jit=False
        )


def machine(target: str | None = None, cpu: str | None = None) -> Machine:
    """The machine for a triple (None: this one) and a processor: a name, ``native``, or None for a common one.

    ExportError names what LLVM does not know.
    """
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = target or host().triple
    try:
        llvm.Target.from_triple(triple)
    except RuntimeError:
        raise ExportError(f"target {triple!r} is not known; such are x86_64-linux-gnu, aarch64-linux-gnu") from None
    if cpu == "native":
        if target not in (None, host().triple):
            raise ExportError(f"cpu 'native' is that of this machine, not of {triple}")
        return Machine(triple, host().cpu, host().features)
    family = triple.partition("-")[0]
    features = "+m,+a,+f,+d,+c" if family.startswith("riscv64") else ""
    return Machine(triple, cpu or BASELINE.get(family, "generic-rv64" if features else ""), features)


def optimised(text: str, machine: Machine) -> Any:
    """The module, with the rare ways of sin, cos and tan linked in and hidden."""
    llvm = binding()
    module = _parsed(text, machine)
    for name, bits in sorted(rare.wanted(_DECLARED.findall(text))):
        hidden = set(rare.exports(name, bits))
        module.link_in(_parsed(rare.module(name, bits), machine))
        for function in module.functions:
            if function.name in hidden and not function.is_declaration:
                function.linkage = "internal"
    module.verify()
    run_passes(module, machine.llvm, slp=True)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine.llvm, llvm.create_pipeline_tuning_options(speed_level=2)))
    return module


def _parsed(text: str, machine: Machine) -> Any:
    llvm = binding()
    module = llvm.parse_assembly(text, _context())
    module.triple, module.data_layout = machine.triple, str(machine.llvm.target_data)
    return module


@functools.cache
def _context() -> Any:
    return binding().create_context()
