"""``import sqlite3`` means manyhands: in a program started by ``python -m manyhands run``, and in its children.

Python imports this when it starts, since the folder is on its path. It costs nothing until ``sqlite3`` is imported. A
child may be another interpreter; where the package cannot be loaded, ``sqlite3`` is the standard module, which works
beside the others.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Optional, Sequence

_HERE = os.path.dirname(os.path.abspath(__file__))

_OURS = {
    "sqlite3": "manyhands",
    "sqlite3.__main__": "manyhands.__main__",
    "sqlite3.dbapi2": "manyhands.dbapi2",
    "sqlite3.dump": "manyhands.dump",
}


class _Replacement:
    """Finds the modules of the package ``sqlite3``, and puts ours in their place."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        return importlib.machinery.ModuleSpec(name, self) if name in _OURS else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # What is in `sys.modules` at the end is what the import statement gets.
        name = module.__name__
        try:
            _load_package()
            sys.modules[name] = importlib.import_module(_OURS[name])
        except ImportError as error:
            print(f"manyhands does not replace sqlite3 in {sys.executable}: {error}", file=sys.stderr)
            sys.meta_path.remove(self)
            del sys.modules[name]
            sys.modules[name] = importlib.import_module(name)


def _load_package() -> None:
    """Loads manyhands from where this file is, if the interpreter has none of its own."""
    if "manyhands" in sys.modules or importlib.util.find_spec("manyhands") is not None:
        return
    package = os.path.dirname(_HERE)
    path = os.path.join(package, "__init__.py")
    spec = importlib.util.spec_from_file_location("manyhands", path, submodule_search_locations=[package])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["manyhands"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["manyhands"]
        raise


def _go_on_with_the_next_one() -> None:
    """Only one module of this name is imported by itself: here comes that which would have been without us."""
    others = [folder for folder in sys.path if os.path.abspath(folder) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _Replacement())
_go_on_with_the_next_one()
