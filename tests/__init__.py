"""The tests of thalweg; `tests.support` is what they share."""
