"""The formats of values: lines of JAAS, PEM texts, URLs."""
