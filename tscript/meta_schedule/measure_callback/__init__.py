"""Measure callback."""
