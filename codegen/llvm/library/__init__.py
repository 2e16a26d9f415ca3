"""Programs -> relocatable objects with a C interface, and archives of them."""

from __future__ import annotations

from symgrad.codegen.llvm.library.archive import archive as archive
from symgrad.codegen.llvm.library.interface import STATUS as STATUS
from symgrad.codegen.llvm.library.interface import Entry as Entry
from symgrad.codegen.llvm.library.interface import Library as Library
from symgrad.codegen.llvm.library.objects import Machine as Machine
from symgrad.codegen.llvm.library.objects import machine as machine
from symgrad.codegen.llvm.library.objects import optimised as optimised
