"""SconvView: the short convolutions of every layer, and what the answer becomes without them.

Kernels as small multiples, all tokens by how much is added, the taps, and a question asked again without a site. The browser asks
for what it shows (``workbench.sconv_views``); where no kernel runs, the static twin stands in the notebook.
"""
