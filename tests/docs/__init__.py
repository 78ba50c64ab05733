"""Tests that the documentation is correct."""
