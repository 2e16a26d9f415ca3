"""Back ends: a Program in, a native function, an object file or source text out. Nothing here knows tensors."""
