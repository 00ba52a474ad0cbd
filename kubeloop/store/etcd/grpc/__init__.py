"""TODO: grpc."""
