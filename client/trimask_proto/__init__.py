"""Messages and services, generated from protos/ by `make protos` and committed; `v1` is never edited by hand."""
