"""Tests of the wheel and the source distribution, and of thalweg in an empty environment."""
