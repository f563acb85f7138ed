"""What every node runs on: ports, interceptors, TLS, health, audit log, peers."""
