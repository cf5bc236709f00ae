"""Figures of a report: drawn once by matplotlib, as SVG for the page and as PNG beside it."""
