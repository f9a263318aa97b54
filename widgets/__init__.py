"""Widgets for notebooks: one folder each, Python next to its ES module."""
