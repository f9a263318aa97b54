"""The sections of the page, one module each: its components, and what its events do. ``page`` puts them together."""
