"""What keeps a node running: limits, readiness, reload, drain, metrics, traces, the HTTP port."""
