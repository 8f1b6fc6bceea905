"""Affine maps of iterators: detection, simplification, division by subspaces, inversion."""
