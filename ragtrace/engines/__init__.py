"""Models behind small classes; the only package that imports torch, transformers or sentence-transformers, and late."""
