"""What code is generated for: target kinds, their attributes, the current target."""
