"""Right wiring for EAGLE-3 drafts on SGLang."""

__version__ = "0.1.0"
