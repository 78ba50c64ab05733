"""The rules of tools/layers.toml, which say what may depend on what, as tests."""
