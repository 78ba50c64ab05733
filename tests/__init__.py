"""The tests of thalweg. `tests.support` is the code that they share."""
