"""The bundled runs, and what is done with them.

    translator    English to and from German, French, Spanish and Chinese
    languages     the language of a text (tasks/identification.py)

Each is the folder of a run, as `regard train` makes it, without its training state and data.
"""

from regard.run_files import bundled_run, bundled_runs

__all__ = ["bundled_run", "bundled_runs"]
