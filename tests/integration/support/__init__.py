"""Code that integration tests share: clients, groups, loads, scripted brokers, processes."""
