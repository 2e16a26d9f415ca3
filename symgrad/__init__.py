"""symgrad: plain NumPy in, fused native gradients out."""

__version__ = "0.1.0"
