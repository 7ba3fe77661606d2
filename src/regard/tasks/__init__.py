"""The tasks: one file each, behind the interface of base.py; registry.py lists them.

`regard.tasks` is public: it exports what the author of a task needs (__init__.pyi, docs/extending.md).
"""

import regard

__getattr__, __dir__, __all__ = regard.lazy_names(__name__, __file__)
