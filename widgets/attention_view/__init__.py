"""AttentionView: where an answer's tokens looked, and what it loses without what they looked at.

Heads, one row over all tokens, the parts with weight beside cause, and heat on picture, recording or passage. The browser asks for
what it shows (``workbench.attention_views``); where no kernel runs, the static twin stands in the notebook.
"""
