"""Task scheduler."""
