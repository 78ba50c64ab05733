"""What is published: the wheel, the source distribution, and what an empty environment can do."""
