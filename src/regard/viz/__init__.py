"""Pictures of attention: weights and words in, text for a terminal or one self-contained HTML page out.

Nothing here knows a model: whatever `numpy.asarray` accepts can be drawn.
"""

from regard.viz.report import Example, Map, Report, attention_maps, render, write_report
from regard.viz.terminal import curve, heatmap, sparkline

__all__ = [
    "Example",
    "Map",
    "Report",
    "attention_maps",
    "curve",
    "heatmap",
    "render",
    "sparkline",
    "write_report",
]
