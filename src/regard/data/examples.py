"""Examples: plain dictionaries, the same for every task."""

from typing import Any

Example = dict[str, Any]
"""One example of any task, with or without its target."""
