"""EngineStatus: what the running engine is doing, in a notebook; its log, and the way to stop it."""
