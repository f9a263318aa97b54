"""RoutingMap: which experts every token used, in a notebook.

Layers × experts above with the sinks set apart, all tokens below; choosing in one shows in the other. The browser asks for the
window it shows (``workbench.routing_views``), so a gesture moves well under a megabyte at a million tokens. Where no kernel runs, a
saved notebook shows the static twin that was put beside the widget.
"""
