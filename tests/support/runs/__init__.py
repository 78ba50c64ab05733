"""How pytest runs the tests: which of them, in which process, and what processes share."""
