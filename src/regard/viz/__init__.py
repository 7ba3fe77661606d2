"""Pictures of attention: weights and words in; text for a terminal, an SVG or one self-contained HTML page out.

Nothing here knows a model: whatever `numpy.asarray` accepts can be drawn.
"""

from regard.viz.chart import bars_svg, chart_svg
from regard.viz.report import AttentionMap, Example, Report, attention_maps, render, write_report
from regard.viz.svg import Panel, heatmap_svg, panels_svg
from regard.viz.terminal import curve, heatmap, sparkline

__all__ = [
    "AttentionMap",
    "Example",
    "Panel",
    "Report",
    "attention_maps",
    "bars_svg",
    "chart_svg",
    "curve",
    "heatmap",
    "heatmap_svg",
    "panels_svg",
    "render",
    "sparkline",
    "write_report",
]
