"""Evaluations through a running engine: the demo checkpoint's skills, the same on any engine, and a needle in a haystack.

Every case is a context of real parts, answered greedily; every answer is kept, so a run goes on where it was ended.
"""
