"""SASL GSSAPI on real Kafka with a Kerberos realm."""
