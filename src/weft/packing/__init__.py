"""Packing trees into a network."""
