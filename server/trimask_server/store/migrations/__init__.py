"""Every change a node's tables have seen: one module a dated step. From 0.1.0 on, a released step is never edited."""
