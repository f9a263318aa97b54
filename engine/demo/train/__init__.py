"""How the demo checkpoint is trained: a fast torch forward of Inkling, data generators, the loop, evaluation and export.

Run as ``python -m engine.demo.train``. Nothing here is imported by the engine or the workbench; it needs torch, the tokenizer
package, Pillow and (for spoken digits only) Debian's espeak-ng. All data is generated from fixed seeds; nothing is downloaded.
"""
