"""Elementary functions as straight-line programs over a few machine operations, written once for every printer.

``definition(name, bits)`` builds the instructions of a function; a printer turns each into an instruction of its
target. Bodies hold no calls, tables, branches or conversions between integers and floats, so that a loop around one
vectorises. Every body is exact about order: printers must neither contract nor reassociate.
"""

from symgrad.codegen.elementary.builder import Body, Instruction
from symgrad.codegen.elementary.functions import ARITY, definition
from symgrad.codegen.elementary.trigonometric import definition_of_turned

__all__ = ["ARITY", "Body", "Instruction", "definition", "definition_of_turned"]
