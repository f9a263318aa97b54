"""The engine: its client side here, the long-lived process in ``kernel``, Inkling without a GPU in ``cpu``."""
