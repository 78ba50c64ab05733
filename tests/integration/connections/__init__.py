"""How clients connect: bootstrap servers, addresses, TLS and SASL, lost connections."""
