"""How the demo checkpoint is trained: a fast torch forward of Inkling, data generators, the loop, evaluation and export.

Run as ``python -m engine.demo.train``. The engine imports nothing of it, the workbench only the skills, to ask them in
evaluations. It needs torch, the tokenizer package, Pillow, typefaces of matplotlib and (for speech in training only) Debian's
espeak-ng. All data is generated from fixed seeds; nothing is downloaded.
"""
