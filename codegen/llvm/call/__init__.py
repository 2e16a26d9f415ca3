"""The native call path: from a Python call to its result in one function, for the signatures that most calls have.

``Signature`` describes such calls, ``load_path`` makes the function, ``callable_type`` the type whose instances are
called through it. A call that does not fit goes on to the Python method ``_slow`` of the object, with nothing changed.
"""

from __future__ import annotations

from symgrad.codegen.llvm.call.layout import unavailable as unavailable
from symgrad.codegen.llvm.call.objects import callable_type as callable_type
from symgrad.codegen.llvm.call.objects import publish as publish
from symgrad.codegen.llvm.call.path import Path as Path
from symgrad.codegen.llvm.call.path import load_path as load_path
from symgrad.codegen.llvm.call.signature import ArrayLeaf as ArrayLeaf
from symgrad.codegen.llvm.call.signature import Attribute as Attribute
from symgrad.codegen.llvm.call.signature import Built as Built
from symgrad.codegen.llvm.call.signature import Cell as Cell
from symgrad.codegen.llvm.call.signature import Entry as Entry
from symgrad.codegen.llvm.call.signature import Exactly as Exactly
from symgrad.codegen.llvm.call.signature import Given as Given
from symgrad.codegen.llvm.call.signature import Item as Item
from symgrad.codegen.llvm.call.signature import NumberLeaf as NumberLeaf
from symgrad.codegen.llvm.call.signature import OfType as OfType
from symgrad.codegen.llvm.call.signature import Python as Python
from symgrad.codegen.llvm.call.signature import Read as Read
from symgrad.codegen.llvm.call.signature import Relation as Relation
from symgrad.codegen.llvm.call.signature import Sequence as Sequence
from symgrad.codegen.llvm.call.signature import Signature as Signature
from symgrad.codegen.llvm.call.signature import Value as Value
