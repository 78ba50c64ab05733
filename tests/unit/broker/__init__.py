"""The Python part of the embedded broker."""
