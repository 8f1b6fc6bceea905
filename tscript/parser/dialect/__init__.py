"""The expression-level functions of the dialect `T`."""
