"""Report: the pictures of networks, schedules and traces, and the page that shows them together."""

from weft.report.layout import Layout, layout_of
from weft.report.network_picture import network_figure
from weft.report.page import Section, html_page
from weft.report.save import save_figure, svg_text
from weft.report.timeline_picture import timeline_figure
from weft.report.trees_picture import trees_figure

__all__ = [
    "Layout",
    "Section",
    "html_page",
    "layout_of",
    "network_figure",
    "save_figure",
    "svg_text",
    "timeline_figure",
    "trees_figure",
]
