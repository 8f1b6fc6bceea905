"""The bottom layer: errors, source positions, configuration. It knows nothing of the IR."""
