"""Who may know whom: the rules of tools/layers.toml as tests."""
