"""The tensor IR: nodes, constructors, traversal, comparison."""
