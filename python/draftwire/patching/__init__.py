"""Additive patches of an SGLang tree: made by a codemod, applied by hash, taken off again."""
