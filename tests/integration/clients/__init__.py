"""What several kinds of clients do alike: options, serializers, interceptors, metrics."""
